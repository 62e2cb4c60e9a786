"""Tests how a detector that is a command is asked, and what becomes of an answer that is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hangbench import command
from hangbench.adapters import kafka_tool, ktx
from hangbench.command import AnswerError, CommandDetector, parsed
from hangbench.detector import Question, Response, Says
from hangbench.waiting import until
from tests.hangbench.no_cluster import NoCluster

ROW = {"topic": "orders", "partition": 3, "producer_id": 8, "says": "hanging"}


def asked(program: str, *, user: str | None = None) -> Response:
    """What comes of a detector that is this program of Python."""
    question = Question(
        bootstrap="127.0.0.1:9", cluster=NoCluster(), situations=("it",), user=user, topic="orders", grace_ms=200
    )
    with CommandDetector("it", [sys.executable, "-c", program]).watching(question) as look:
        return look()


def answer(*rows: object, **more: object) -> str:
    return json.dumps({"hangbench": 1, "transactions": list(rows), **more})


def test_an_answer_is_read() -> None:
    """A row without a producer id is of the whole partition; an answer that does not say so is complete."""
    assert parsed(answer(ROW, {**ROW, "partition": 4, "producer_id": None, "says": "unknown"})) == (
        {("orders", 3, 8): Says.HANGING, ("orders", 4, None): Says.UNKNOWN},
        True,
    )
    assert parsed(answer(complete=False)) == ({}, False)


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[]", "it is not an object"),
        ('{"hangbench": 2, "transactions": []}', "it is not an object"),
        ('{"hangbench": 1}', '"transactions" must be a list'),
        (answer(complete="yes"), '"complete" true or false'),
        (answer(7), "transactions[0] is not an object"),
        (answer(ROW, {**ROW, "partition": "3"}), "transactions[1] needs a topic"),
        (answer({**ROW, "producer_id": True}), "transactions[0] needs a topic"),
        (answer({**ROW, "says": "dead"}), "transactions[0].says must be one of hanging, attention, open, unknown"),
        (answer(ROW, {**ROW, "says": "open"}), "it has two rows about ('orders', 3, 8), with different words"),
    ],
)
def test_what_is_no_answer_is_said_with_its_place(printed: str, words: str) -> None:
    """The author of a detector reads it."""
    with pytest.raises(AnswerError) as error:
        parsed(printed)
    assert words in str(error.value)


def test_the_question_is_in_the_environment() -> None:
    """With a login, the properties file has it."""
    program = (
        "import json, os\n"
        "own = {k[10:]: v for k, v in os.environ.items() if k.startswith('HANGBENCH_')}\n"
        "own['config'] = open(own.pop('CONFIG')).read()\n"
        "print(json.dumps({'hangbench': 1, 'transactions': ["
        "{'topic': json.dumps(own), 'partition': 0, 'producer_id': 0, 'says': 'open'}]}))"
    )
    ((topic, _, _),) = asked(program, user="reader").rows

    question = json.loads(topic)
    config = question.pop("config")
    assert question == {
        "BOOTSTRAP": "127.0.0.1:9",
        "BROKER_IDS": "1",
        "TOPIC": "orders",
        "PARTITION": "",
        "USER": "reader",
        "PASSWORD": "let-me-in",
        "KAFKA_VERSION": "4.3.1",
        "JAVA": "java -cp '/jars of/*'",
        "REQUEST_TIMEOUT_MS": "5000",
        "PATIENCE_MS": "3000",
        "GRACE_MS": "200",
    }
    assert 'username="reader" password="let-me-in"' in config


@pytest.mark.parametrize(
    ("program", "death"),
    [
        ("import sys; sys.exit('it is broken')", "it is broken"),
        ("import sys; sys.exit(7)", "exit status 7"),
        ("print('hello')", "its answer cannot be read: it is no JSON"),
    ],
)
def test_a_detector_that_fails_has_crashed(program: str, death: str) -> None:
    """With its own last sentence."""
    response = asked(program)

    assert response.death is not None
    assert response.death.startswith(death)


def test_a_detector_that_is_not_there_has_crashed() -> None:
    """A wrong path is not an answer."""
    question = Question(bootstrap="127.0.0.1:9", cluster=NoCluster(), situations=("it",))
    with CommandDetector("it", ["/nowhere/python3"]).watching(question) as look:
        death = look().death

    assert death is not None
    assert death.startswith("it cannot be started")


def test_nothing_that_a_detector_starts_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own children would ask the brokers on, while the next detector is judged."""
    monkeypatch.setattr(command, "EXTRA_PATIENCE_S", -2)
    own = tmp_path / "child"
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(own)!r}, 'w').write(str(child.pid))\n"
        "child.wait()"
    )

    assert asked(program).death == "no answer within 1 s"
    until(lambda: not is_alive(int(own.read_text())), patience_s=10)


def is_alive(process_id: int) -> bool:
    """False for one that has ended, and that nobody has waited for."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_kafka_s_tool_is_understood() -> None:
    """Rows are read by the names of the columns, a death by its deepest cause."""
    table = "Topic\tPartition\tProducerId\tProducerEpoch\tStartOffset\ntopic\t0\t1\t3\t17\n"
    trace = "[main] WARN noise\nFailed\nCaused by: org.apache.kafka.common.errors.TimeoutException: too late\n\tat x"

    assert kafka_tool.rows(table) == [("topic", 0, 1, "hanging")]
    assert kafka_tool.sentence_of(trace) == "TimeoutException: too late"
    assert kafka_tool.sentence_of("[main] WARN noise\nIt failed\n") == "It failed"


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ("hanging_stale_epoch", "hanging"),
        ("hanging_by_offsets", "hanging"),
        ("stuck_completing", "attention"),
        ("inconclusive", "unknown"),
        ("open_within_timeout", "open"),
    ],
)
def test_a_verdict_of_ktx_is_understood(verdict: str, says: str) -> None:
    """Only what it calls hanging may be called so."""
    row = {"topic": "t", "partition": 0, "producer_id": 5, "verdict": verdict}
    assert ktx.said(row) == ("t", 0, 5, says)
    assert ktx.said({**row, "producer_id": -1}) == ("t", 0, None, says)
