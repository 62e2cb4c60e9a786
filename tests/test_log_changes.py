"""A failure that goes on has one log line, whatever it measures each time; another failure has its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from exporter.config.loading import load
from exporter.daemon.baseline_file import BaselineFile
from exporter.daemon.daemon import Daemon
from exporter.daemon.incidents_file import IncidentsFile
from exporter.daemon.kept_file import KeptFileError
from exporter.daemon.log_follower import LogFollower
from exporter.history.writer import History
from exporter.incidents.incident import NO_INCIDENTS
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.state_log import LogPart, LogUnreadableError
from exporter.log_format import LatestState
from exporter.transaction_log.report import LogPosition
from tests.baselines import document
from tests.daemon.fleets import Scripts, fleet, healthy
from tests.daemon.logs import Log, Logs
from tests.daemon.stand_ins import Script, cycle
from tests.evaluation.builders import NOW_MS
from tests.history.cycles import DAY_MS
from tests.history.cycles import cycle as history_cycle
from tests.history.cycles import history as history_in
from tests.incidents.cycles import hanging

BROKER = "broker at 127.0.0.1:9092 cannot be connected to (timed_out): "
SPARK = "the Spark job failed: [SPARK_JOB_CANCELLED] Job {} cancelled part of cancelled job tags {}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{BROKER}Request timed out after 8322 ms", f"{BROKER}Request timed out after 8319 ms"),
        ("its response was not complete after 2.5 s", "its response was not complete after 10 s"),
        ("its clock is 3 min 12 s behind", "its clock is 5 min 1 s behind"),
        ("it was made 8.0 d ago", "it was made 8.1 d ago"),
        ("not examined: 5 of 40 open transactions; raise", "not examined: 7 of 1,041 open transactions; raise"),
        ("listed, but then changed: 12 suspect producers", "listed, but then changed: 1 suspect producer"),
        ("1 suspect transaction could not be read", "2 suspect transactions could not be read"),
        (SPARK.format(3, "a1" * 16), SPARK.format(4, "07" * 16)),
        (
            "Job aborted: ShuffleMapStage 12.0 in stage 12.0 failed",
            "Job aborted: ShuffleMapStage 12.0 in stage 7.1 failed",
        ),
    ],
)
def test_a_measurement_alone_is_not_news(before: str, after: str) -> None:
    state = LatestState()
    assert [state.is_new(sentence) for sentence in (before, after, before)] == [True, False, False]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("broker 1 did not respond", "broker 2 did not respond"),
        (f"{BROKER}Connection refused", f"{BROKER.replace('9092', '9093')}Connection refused"),
        ("partition 3: its leader is unknown", "partition 4: its leader is unknown"),
        ("1 partition is unread, the first is orders-1", "1 partition is unread, the first is orders-2"),
        ("12 partitions are unread", "500 partitions are unread"),
        (f"{BROKER}Request timed out after 8322 ms", f"{BROKER}Connection refused"),
        ("the response is cut off", None),
    ],
)
def test_other_numbers_are_news(before: str, after: str | None) -> None:
    """A broker, a port, a partition: something else has failed. So is its end, and its return."""
    state = LatestState()
    assert [state.is_new(sentence) for sentence in (before, after, before)] == [True, True, True]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], int]]:
    """How many log lines have such a beginning."""
    with caplog.at_level("INFO"):
        yield lambda text: sum(text in record.getMessage() for record in caplog.records)


def too_late(number: int) -> str:
    return f"no broker responded: {BROKER}Request timed out after {8322 - number} ms"


def test_a_cluster_of_a_fleet_that_times_out_has_one_line(lines: Callable[[str], int]) -> None:
    """Twenty failures; the cluster that responds has its own line."""
    failures = [ClusterUnavailableError(too_late(number)) for number in range(20)]
    daemon = Daemon(
        fleet("slow", "well"), Scripts(slow=Script(*failures, healthy("s")), well=Script(*[healthy("w")] * 21))
    )
    for _ in range(21):
        cycle(daemon)

    assert (lines("cycle failed"), lines("cycle succeeded")) == (1, 2)


def test_the_reader_of_the_transaction_log_has_one_line(
    lines: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.daemon.log_follower.OPEN_AGAIN_SECONDS", 0.01)
    last = Log([LogPart(())], {0: 0})
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1"}).settings
    logs = Logs(*[LogUnreadableError(too_late(number)) for number in range(5)], last)
    reader = LogFollower(
        settings.kafka, settings.transaction_log, counted_before=LogPosition(), wall_clock=lambda: 0.0, open_log=logs
    )
    reader.start()
    try:
        assert last.drained.wait(10)
    finally:
        reader.close()

    assert (lines("cannot be read"), lines("the transaction log is read")) == (1, 1)


def test_a_history_that_cannot_be_written_has_one_line(
    tmp_path: Path, lines: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one when it is written again; the status has the newest sentence."""
    kept, numbers = history_in(tmp_path), count()

    def fail(*_: object) -> None:
        raise TimeoutError(f"the disk did not respond within {next(numbers)} s")

    with monkeypatch.context() as disk:
        disk.setattr(History, "_write", fail)
        kept.record(history_cycle(), 30_000)
        for _ in range(3):
            kept.rotate()
    assert str(kept.status().failure).endswith("within 2 s")
    kept.rotate()

    assert (lines("history cannot be written"), lines("history is written again")) == (1, 1)


def test_a_baseline_that_grows_older_has_one_line(tmp_path: Path, lines: Callable[[str], int]) -> None:
    now_ms = iter(range(NOW_MS + 8 * DAY_MS, NOW_MS + 9 * DAY_MS, DAY_MS // 10))
    file = BaselineFile(tmp_path / "baselines.json", (), age_ms_max=7 * DAY_MS, wall_clock=lambda: next(now_ms) / 1000)
    (tmp_path / "baselines.json").write_text(json.dumps(document()))
    for _ in range(5):
        file.current()

    assert lines("is not used") == 1


def test_incidents_that_cannot_be_saved_have_one_line(
    tmp_path: Path, lines: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()

    def fail(*_: object, **__: object) -> None:
        raise KeptFileError(f"the disk did not respond within {next(numbers)} s")

    monkeypatch.setattr("exporter.daemon.incidents_file.kept_file.save", fail)
    kept = IncidentsFile(tmp_path / "state.json")
    for later in range(3):
        kept.incidents = NO_INCIDENTS
        kept.take(hanging(30 * later))

    assert (lines("begins"), lines("a restart would lose the incidents")) == (3, 1)
