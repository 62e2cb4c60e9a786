"""`explain` names what was made on real brokers, and never another cause; the advised setting prevents it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from exporter.evaluation.protection import ProtectionState
from exporter.evaluation.verdicts import Verdict
from exporter.explain.causes import Cause
from exporter.explain.timeline import Clock
from hangbench.kafka.wire import BrokerRefused
from tests.marks import starts
from tests.real_brokers.exporting import PATIENCE_S, Exporter, called, serving, suspects_on
from tests.verification.causes.__main__ import NO_CAUSE, label, named
from tests.verification.causes.scenes import (
    CAUSES,
    SCENES,
    TRAPS,
    Made,
    committed_while_leaderless,
    coordinator_log_lost,
    delayed,
    late_write,
    log_end,
    marker_lost,
    not_added,
    written_after_expiry,
)
from tests.watching import Watch, rows_on

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "schema" / "explain.schema.json").read_text())
VERSIONS = ("4.3.1", "3.9.1")
LOOKS = 20
INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING = 48, 49
Refusable = Callable[[str, Mapping[str, str]], AbstractContextManager[Made]]


def test_there_is_a_scene_for_each_cause() -> None:
    """A new cause is made on real brokers before it is named."""
    assert set(CAUSES) == {cause.value for cause in Cause} - {Cause.UNKNOWN.value}


def test_the_schema_has_the_names_of_the_code() -> None:
    """Its lists are those that `explain` can print."""
    properties = SCHEMA["properties"]

    assert properties["cause"]["enum"] == [*(cause.value for cause in Cause), None]
    assert properties["possible_causes"]["items"]["enum"] == [cause.value for cause in Cause]
    assert properties["timeline"]["items"]["properties"]["clock"]["enum"] == [clock.value for clock in Clock]
    assert properties["prevention"]["items"]["properties"]["state"]["enum"] == [
        state.value for state in ProtectionState
    ]


@pytest.fixture(scope="module")
@starts("broker")
def late() -> Iterator[Made]:
    """Hangs until the last test of it has aborted it."""
    with late_write("4.3.1") as made:
        yield made


def test_a_late_write_is_explained_in_every_format(late: Made, tmp_path: Path) -> None:
    """The whole answer: cause, evidence, time line with its clocks, measures, and what was read."""
    found = named(late, tmp_path)
    place = ("--topic", late.topic, "--partition", "0", "--start-offset", str(late.start_offset))
    text, markdown, other = (
        called(tmp_path, "explain", "--bootstrap-server", late.bootstrap, *place, *more)
        for more in (("--show-records",), ("--format", "markdown"), ("--start-offset", "0"))
    )

    assert found["cause"] == "late_write"
    closed = {**SCHEMA, "additionalProperties": False}
    assert [error.message for error in Draft202012Validator(closed).iter_errors(found)] == []
    assert "Cause: late_write: a record of the transaction arrived after its end marker" in text.stdout
    assert "exposed  transaction.partition.verification.enable: false" in text.stdout
    assert "nothing was written" in text.stdout
    sentences = [line.split("  ", 3)[-1] for line in text.stdout.splitlines() if "[late-" in line]
    assert any("ABORT marker" in sentence for sentence in sentences)
    assert any("it opened the transaction; headers trace-id" in sentence for sentence in sentences)
    assert "secret" not in text.stdout + markdown.stdout + json.dumps(found)
    assert markdown.stdout.startswith(f"## Why {late.topic}-0, start offset {late.start_offset} hung")
    assert "Cause: late_write" in markdown.stdout
    assert other.returncode == 1
    assert f"those that are open start at {late.start_offset}" in other.stderr


def test_the_daemon_finds_the_cause_by_itself(late: Made, tmp_path: Path) -> None:
    """It is on the incident's page, and `explain --incident` finds it again after the abort."""
    place = ("--topic", late.topic, "--partition", "0", "--start-offset", str(late.start_offset))
    where = ("--bootstrap-server", late.bootstrap, f"--state.file={tmp_path / 'state.json'}")
    with serving(late.bootstrap, tmp_path, scan__interval="2s", scan__deadline="1s") as exporter:
        page = until_page_has(exporter, "Cause <strong>late_write</strong>")
        # Its producer's other transaction was committed, so abort needs options which say that this one was not.
        sure = ("--yes", "--force", "hanging_not_in_transaction", "--accept-data-loss")
        aborted = called(tmp_path, "abort", "--bootstrap-server", late.bootstrap, *place, *sure)
        assert aborted.returncode == 0, aborted.stderr
        exporter.until(lambda metrics: not suspects_on(metrics, late.topic))
    (incident,) = [line.split()[0] for line in called(tmp_path, "incident", *where).stdout.splitlines()]
    post_mortem = called(tmp_path, "incident", incident, *where).stdout
    (found,) = json.loads(called(tmp_path, "explain", "--incident", incident, *where, "--format", "json").stdout)

    assert "its ABORT marker is at offset" in page
    assert f"- {late.topic}-0 (late_write): " in post_mortem.partition("## Cause")[2]
    assert (found["cause"], found["verdict"]) == ("late_write", None)


def until_page_has(exporter: Exporter, text: str) -> str:
    """The page of the only incident, once it has this text."""
    deadline = time.monotonic() + PATIENCE_S
    page = ""
    while time.monotonic() < deadline:
        links = re.findall(r'href="(/incidents/\w+)"', exporter.get("/incidents")[1])
        page = exporter.get(links[0])[1] if links else ""
        if text in page:
            return page
        time.sleep(0.2)
    raise AssertionError(f"{text!r} is not on the page: {page}\n{exporter.log}")


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scene", SCENES)
def test_what_was_made_is_named_or_unknown(scene: str, version: str, tmp_path: Path) -> None:
    """Each of the eight causes by its name; what only looks like one by its own or as unknown, never by another."""
    with SCENES[scene](version) as made:
        found = named(made, tmp_path)

    truth, cause = label(made.cause), str(found["cause"] or NO_CAUSE)
    assert cause in {truth, Cause.UNKNOWN.value} if scene in TRAPS else cause == truth


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_with_verification_the_late_write_is_refused(version: str) -> None:
    """The advised setting prevents the same fault."""
    with delayed(version, {}) as record, Watch(record.cluster.bootstrap) as watch:
        record.arrive()
        ends = set()
        for _ in range(LOOKS):  # without verification it is there at the first look
            ends.add(log_end(record.cluster.bootstrap, record.topic))
            time.sleep(0.1)
        evaluation = watch.cycle(describe_all=True)

    assert ends == {record.log_end}
    assert len(evaluation.snapshot.open_transactions) == 0


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scene", [not_added, written_after_expiry])
def test_with_verification_a_write_outside_of_a_transaction_is_refused(scene: Refusable, version: str) -> None:
    """Brokers do so as they are shipped."""
    with pytest.raises(BrokerRefused) as refused, scene(version, {}):
        pass

    assert refused.value.error_code in {INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE}


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_without_unclean_elections_the_marker_is_kept(version: str) -> None:
    """The partition waits for the replica that has it."""
    with marker_lost(version, unclean=False) as made, Watch(made.bootstrap) as watch:
        rows = rows_on(watch.cycle(describe_all=True), made.topic)

    assert rows == {}


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize(("version", "verdicts"), [("4.3.1", {Verdict.HANGING_NOT_IN_TRANSACTION}), ("3.9.1", set())])
def test_a_marker_that_is_due_while_there_is_no_leader(version: str, verdicts: set[Verdict], tmp_path: Path) -> None:
    """Kafka 4.3 skips it, and the client's commit returns (KAFKA-20734); others wait with it."""
    with committed_while_leaderless(version) as made:
        with Watch(made.bootstrap) as watch:
            rows = rows_on(watch.cycle(describe_all=True), made.topic)
        cause = named(made, tmp_path)["cause"] if rows else None

    assert {row.verdict for row in rows.values()} == verdicts
    assert cause == (None if made.cause is None else made.cause.value)
    assert bool(verdicts) == (made.cause is Cause.MARKER_LOST)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_with_three_replicas_a_lost_disk_loses_no_transaction(version: str) -> None:
    """The next coordinator knows it: it is open, and within its time-out."""
    with coordinator_log_lost(version, nodes=3) as made, Watch(made.bootstrap) as watch:
        verdicts = set()
        for _ in range(LOOKS):
            verdicts |= {row.verdict for row in rows_on(watch.cycle(describe_all=True), made.topic).values()}

    assert not any(verdict.is_hanging for verdict in verdicts)
    assert Verdict.OPEN_WITHIN_TIMEOUT in verdicts
