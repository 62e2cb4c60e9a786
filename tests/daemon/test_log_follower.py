"""The reader of the transaction log over a stand-in: its counts, when it publishes them, and that no error ends it."""

from __future__ import annotations

import pytest

from exporter.config.loading import load
from exporter.daemon.log_follower import TIMEOUTS_MAX, LogFollower
from exporter.kafka.log_progress import LogRecord
from exporter.kafka.state_log import LogPart, LogUnreadableError
from exporter.transaction_log.counts import Counted
from exporter.transaction_log.report import LogPosition, LogReport
from tests.daemon.logs import Log, Logs, commits
from tests.transaction_log.builders import key_of, value

PATIENCE_S = 10
FLAGS = {"kafka.bootstrap.servers": "a:1", "transaction_log.enabled": "true"}


def reader_of(logs: Logs, counted_before: LogPosition | None = None) -> LogFollower:
    settings = load(file=None, environment={}, flags=FLAGS).settings
    return LogFollower(
        settings.kafka,
        settings.transaction_log,
        counted_before=counted_before or LogPosition(),
        wall_clock=lambda: 7200.0,
        open_log=logs,
    )


def read_through(log: Log, counted_before: LogPosition | None = None) -> LogReport:
    """The report once all batches are taken."""
    reader = reader_of(Logs(log), counted_before)
    reader.start()
    try:
        assert log.drained.wait(PATIENCE_S)
        return reader.report()
    finally:
        reader.close()


def commits_of(report: LogReport) -> int:
    assert isinstance(report.counted, Counted)
    return sum(number for _, outcome, number in report.counted.completed if outcome.value == "commit")


def test_the_log_of_another_cluster_is_not_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its transactions would be counted as those of the watched one. When that one responds again, reading goes on."""
    monkeypatch.setattr("exporter.daemon.log_follower.OPEN_AGAIN_SECONDS", 0.01)
    other = Log([], {0: 0})
    other.cluster_id = "another"
    reader = reader_of(Logs(other, log := Log([], {0: 0})))
    reader.expect(log.cluster_id)
    reader.start()
    try:
        assert log.drained.wait(PATIENCE_S)
    finally:
        reader.close()
    assert not other.drained.is_set()
    assert f"the brokers belong to cluster another, not to {log.cluster_id}" in caplog.text
    assert reader.report().position.cluster_id == log.cluster_id


def test_a_reader_that_has_found_another_cluster_than_the_cycles_changes_over() -> None:
    """The bootstrap servers are of two clusters."""
    other = Log([], {0: 0})
    other.cluster_id = "another"
    reader = reader_of(Logs(other, log := Log([], {0: 0}), again := Log([], {0: 0})))
    reader.start()
    try:
        assert other.drained.wait(PATIENCE_S)
        reader.expect(log.cluster_id)
        assert log.closed.wait(PATIENCE_S)
        assert again.drained.wait(PATIENCE_S)
    finally:
        reader.close()


def test_it_begins_as_far_back_as_the_settings_say() -> None:
    """An hour before now, by default, and from no position."""
    logs = Logs(log := Log([], {0: 0}))
    reader = reader_of(logs)
    reader.start()
    assert log.drained.wait(PATIENCE_S)
    reader.close()

    assert logs.opened == [{"since_ms": 3_600_000, "positions": {}}]
    assert log.closed.is_set()


def test_everything_is_counted_once() -> None:
    """Over partitions and batches; the position is behind the last record of each."""
    report = read_through(Log([LogPart(tuple(commits(0, 0, 2))), LogPart(tuple(commits(3, 5, 1)))], {0: 6, 3: 8}))

    assert commits_of(report) == 3
    assert (report.records, report.lag_records, report.partitions_current) == (9, 0, 2)
    assert report.position == LogPosition(cluster_id="cluster-1", offsets={0: 6, 3: 8})
    assert report.failure is None


def test_counts_are_not_published_while_they_catch_up() -> None:
    """A counter that shows an hour at once would look like an event of now."""
    behind = read_through(Log([LogPart(tuple(commits(0, 0, 2)))], {0: 600, 3: 0}))

    assert (behind.counted, behind.lag_records) == (None, 594)
    assert (behind.partitions_current, behind.partitions_behind) == (0, 2)


def test_what_an_earlier_run_counted_is_read_and_not_counted_again() -> None:
    """The transaction that was open over the restart is whole all the same: its beginning was read again."""
    position = LogPosition(cluster_id="cluster-1", offsets={0: 5})
    report = read_through(Log([LogPart(tuple(commits(0, 0, 2)))], {0: 6}), position)
    other = read_through(
        Log([LogPart(tuple(commits(0, 0, 2)))], {0: 6}), LogPosition(cluster_id="another", offsets={0: 5})
    )

    assert (commits_of(report), commits_of(other)) == (1, 2)


def test_until_it_has_caught_up_the_position_stays_where_it_was() -> None:
    """A second restart in the middle of reading again counts nothing twice."""
    position = LogPosition(cluster_id="cluster-1", offsets={0: 500})
    report = read_through(Log([LogPart(tuple(commits(0, 0, 2)))], {0: 600}), position)

    assert report.position.offsets[0] == 500


def test_a_position_beyond_the_log_s_end_is_of_another_log(caplog: pytest.LogCaptureFixture) -> None:
    """It counts from its beginning."""
    position = LogPosition(cluster_id="cluster-1", offsets={0: 900})
    report = read_through(Log([LogPart(()), LogPart(tuple(commits(0, 0, 2)))], {0: 6}), position)

    assert commits_of(report) == 2
    assert not caplog.records or "older than" not in caplog.text


def test_records_that_cannot_be_decoded_are_counted_as_such() -> None:
    """And end nothing."""
    strange = [
        LogRecord(0, 0, 1, b"\0", None),
        LogRecord(0, 1, 1, b"\0\1\0\0", None),
        LogRecord(0, 2, 1, key_of("x"), b"\0\7"),
        LogRecord(0, 3, 1, None, None),
    ]
    report = read_through(Log([LogPart((*strange, *commits(0, 4, 1)))], {0: 7}))

    assert (report.malformed, report.unknown_versions, commits_of(report)) == (2, 2, 1)


def test_a_gap_makes_what_follows_poorer_and_not_wrong(caplog: pytest.LogCaptureFixture) -> None:
    """The end of a transaction whose beginning is lost is counted, without a duration."""
    begun, _, ended = commits(0, 0, 1)
    report = read_through(Log([LogPart((begun,)), LogPart((), gaps=(0,)), LogPart((ended,))], {0: 3}))

    assert commits_of(report) == 1
    assert report.counted is not None
    assert sum(sum(histogram.counts) for _, histogram in report.counted.markers) == 0
    assert "records are missing in __transaction_state (partition 0)" in caplog.text


def test_it_goes_on_where_it_was_after_any_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that cannot be opened, one that breaks, a defect: each is logged, and nothing is read twice or lost."""
    monkeypatch.setattr("exporter.daemon.log_follower.OPEN_AGAIN_SECONDS", 0.01)
    records = commits(0, 0, 4)
    broken = Log([LogPart(tuple(records[:5])), LogUnreadableError("all brokers are down")], {0: 12})
    defect = Log([LogPart(tuple(records[5:8])), ZeroDivisionError("oh")], {0: 12})
    last = Log([LogPart(tuple(records[8:]))], {0: 12})
    logs = Logs(LogUnreadableError("there is no topic yet"), broken, defect, last)
    reader = reader_of(logs)

    with caplog.at_level("INFO"):
        reader.start()
        assert last.drained.wait(PATIENCE_S)
        report = reader.report()
        reader.close()

    assert [call["positions"] for call in logs.opened] == [{}, {}, {0: 5}, {0: 8}]
    assert commits_of(report) == 4
    assert report.failure is None
    for sentence in (
        "there is no topic yet",
        "all brokers are down",
        "the reader failed unexpectedly",
        "the log is read",
    ):
        assert sentence.replace("the log is", "the transaction log is") in caplog.text
    assert broken.closed.is_set()
    assert defect.closed.is_set()


def test_while_nothing_is_read_no_partition_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Absence is not health: the ends that were known a moment ago are not known now."""
    monkeypatch.setattr("exporter.daemon.log_follower.OPEN_AGAIN_SECONDS", 60)
    broken = Log([LogPart(tuple(commits(0, 0, 1))), LogUnreadableError("all brokers are down")], {0: 3})
    reader = reader_of(Logs(broken))
    reader.start()
    assert broken.closed.wait(PATIENCE_S)
    report = reader.report()
    reader.close()

    assert (report.partitions_current, report.partitions_unread, report.lag_records) == (0, 1, None)
    assert commits_of(report) == 1, "what was counted stays"


def test_another_cluster_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other brokers in the settings: positions of the old cluster mean nothing there, counters go on."""
    monkeypatch.setattr("exporter.daemon.log_follower.OPEN_AGAIN_SECONDS", 0.01)
    first, surprise = Log([LogPart(tuple(commits(0, 0, 2)))], {0: 6}), Log([], {0: 6})
    again = Log([LogPart(tuple(commits(0, 0, 1)))], {0: 3})
    surprise.cluster_id = again.cluster_id = "cluster-2"
    logs = Logs(first, surprise, again)
    reader = reader_of(logs)
    reader.start()
    assert first.drained.wait(PATIENCE_S)
    reader.use(load(file=None, environment={}, flags=FLAGS).settings.kafka)
    assert again.drained.wait(PATIENCE_S)
    report = reader.report()
    reader.close()

    assert [call["positions"] for call in logs.opened] == [{}, {0: 6}, {}]
    assert commits_of(report) == 3
    assert report.position == LogPosition(cluster_id="cluster-2", offsets={0: 3})


def test_what_is_wrong_with_partitions_is_one_sentence() -> None:
    """The first by number, and how many more there are."""
    log = Log([LogPart(())], {0: 0, 1: 0})
    log.failures = {4: "Broker: Topic authorization failed", 9: "x"}

    assert read_through(log).failure == "partition 4: Broker: Topic authorization failed, and 1 more"


def timed_out(offset: int, name: str, at_ms: int = 3000) -> list[LogRecord]:
    """Begun, and aborted by its coordinator after its time-out of a second."""
    begun = LogRecord(0, offset, 1000, key_of(name), value(1, 1000))
    return [begun, LogRecord(0, offset + 1, at_ms, key_of(name), value(3, 1000, epoch=1, updated_ms=at_ms))]


def test_the_newest_time_outs_are_kept_and_come_first() -> None:
    count = TIMEOUTS_MAX + 5
    records = [record for number in range(count) for record in timed_out(2 * number, f"id-{number}", 3000 + number)]
    kept = read_through(Log([LogPart(tuple(records))], {0: 2 * count})).timeouts
    assert [timeout.at_ms for timeout in kept] == list(range(3000 + count - 1, 3000 + 4, -1))


def test_time_outs_are_logged_with_their_names_once_the_log_is_caught_up(caplog: pytest.LogCaptureFixture) -> None:
    """Those from before the start are on the page; of many at once the log has the first few and their number."""
    many = [record for number in range(7) for record in timed_out(4 + 2 * number, f"new-{number}")]
    log = Log([LogPart((*timed_out(0, "old-0"), *timed_out(2, "old-1"))), LogPart(tuple(many))], {0: 4})
    report = read_through(log)
    assert len(report.timeouts) == 9
    lines = [line for line in caplog.messages if "transaction" in line and "coordinator" in line]
    assert [line.split("'")[1] for line in lines[:-1]] == [f"new-{number}" for number in range(5)]
    assert lines[-1] == "2 more transactions were ended by their coordinators"
