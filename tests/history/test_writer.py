"""The history on disk: whole files, a stated loss, limits, and a disk that fails without other effects."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.history import writer as module
from exporter.history.schema import CYCLE_COLUMNS, CYCLES, OBSERVATION_COLUMNS, OBSERVATIONS, TEMPORARY, VERSION
from exporter.history.writer import History, arrow_schema
from exporter.snapshot import ClockSource, GroupOffset, Impact, PartitionResult, SecondRead, Visibility
from hangbench.waiting import until
from tests.evaluation.builders import NOW_MS, Entry, partitions_of, proof, snapshot, transaction
from tests.history.cycles import DAY_MS, OPEN, cycle, history, settings

PATIENCE_S = 20
needs_a_small_disk = pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can be mounted by root only")


def files(directory: Path, table: str) -> list[Path]:
    """As readers of Parquet folders see them: not what is being written."""
    return sorted(path for path in (directory / VERSION / table).rglob("*.parquet") if not path.name.startswith("_"))


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    return [row for file in files(directory, table) for row in pq.ParquetFile(file).read().to_pylist()]


def test_a_cycle_is_read_back_as_it_was(tmp_path: Path) -> None:
    """An ordinary transaction, a hang, an unread partition: each in its columns, under the path that the schema names."""
    hang = Entry(partition=1, producer_id=9, second_read=SecondRead.UNCHANGED)
    taken = snapshot([Entry(), hang], unread=[2], transactions=(transaction(),), proof=proof(), partitions=3)
    kept = history(tmp_path)
    evaluation = evaluate(taken, Memory(), Policy())
    kept.record(evaluation, 30_000, "east", {evaluation.evidence[1].key: "late_write"})
    kept.rotate()

    (file,) = files(tmp_path, OBSERVATIONS)
    assert str(file.relative_to(tmp_path)) == (
        f"{VERSION}/observations/cluster_id=cluster-1/date=2027-01-15/{NOW_MS}-{NOW_MS}-writer-1.parquet"
    )
    ordinary, hanging = rows(tmp_path, OBSERVATIONS)
    assert (ordinary["topic"], ordinary["partition"], ordinary["producer_id"]) == ("orders", 0, 7)
    assert int(ordinary["taken_at"].timestamp() * 1000) == NOW_MS
    assert (ordinary["verdict"], ordinary["start_source"]) == ("open_within_timeout", "coordinator")
    assert (ordinary["transactional_id"], ordinary["outcome_evidence"]) == ("app-1", None)
    assert (hanging["verdict"], hanging["groups"]) == ("hanging_no_transactional_id", [])
    assert (ordinary["cause"], hanging["cause"]) == (None, "late_write")
    (covered,) = rows(tmp_path, CYCLES)
    assert (covered["unread"], covered["partitions_unread"], covered["is_complete"]) == (["orders-2"], 1, False)
    assert (covered["open_transactions"], covered["interval_ms"], covered["writer"]) == (2, 30_000, "writer-1")
    assert (covered["cluster_name"], covered["partitions_unauthorized"]) == ("east", 0)


def test_groups_that_stand_still_are_recorded_whatever_the_verdict(tmp_path: Path) -> None:
    """A live transaction of a killed producer makes groups wait as well; one that has not come to it does not wait."""
    holder = Entry(start_offset=100, last_stable_offset=100, high_watermark=150)
    offsets = [
        GroupOffset(group=group, topic="orders", partition=0, offset=offset)
        for group, offset in (("at", 100), ("far-before", 10), ("beyond", 120))
    ]
    impact = Impact(offsets=tuple(offsets), residents=(), failures=())
    live = transaction(start_ms=NOW_MS - 60_000)
    evaluation = evaluate(snapshot([holder], transactions=(live,), impact=impact), Memory(), Policy())
    kept = history(tmp_path)
    kept.record(evaluation, 30_000)
    kept.rotate()

    (row,) = rows(tmp_path, OBSERVATIONS)
    assert (row["verdict"], row["groups"], row["outcome_evidence"]) == ("open_within_timeout", ["at"], None)


@pytest.mark.parametrize(("source", "written"), [(ClockSource.CONTROLLER, -1_200), (ClockSource.EXPORTER, None)])
def test_the_offset_of_the_clock_is_recorded_where_it_is_known(
    tmp_path: Path, source: ClockSource, written: int | None
) -> None:
    """Without a controller's time nothing is known: not that both clocks agree."""
    kept = history(tmp_path)
    taken = replace(snapshot([Entry()], transactions=(transaction(),)), clock_source=source, clock_offset_ms=-1_200)
    kept.record(evaluate(taken, Memory(), Policy()), 30_000)
    kept.rotate()

    assert [row["clock_offset_ms"] for row in rows(tmp_path, CYCLES)] == [written]


@pytest.mark.parametrize(("topic_ids", "written"), [(("id-1",), "id-1"), (("",), None), ((), None)])
def test_the_topic_id_is_recorded_where_it_is_known(
    tmp_path: Path, topic_ids: tuple[str, ...], written: str | None
) -> None:
    """A topic that is deleted and created again has the same offsets, and another id."""
    taken = snapshot([Entry()], transactions=(transaction(),))
    kept = history(tmp_path)
    named = replace(taken, partitions=replace(taken.partitions, topic_ids=topic_ids))
    kept.record(evaluate(named, Memory(), Policy()), 30_000)
    kept.rotate()

    assert [row["topic_id"] for row in rows(tmp_path, OBSERVATIONS)] == [written]


def test_excluded_partitions_are_neither_read_nor_unread_and_not_closed(tmp_path: Path) -> None:
    """Their names are in `unread`, so that the pipeline does not take their transactions for closed."""
    taken = snapshot([Entry()], partitions=3, transactions=(transaction(),))
    taken.partitions.answer[1] = PartitionResult.EXCLUDED
    kept = history(tmp_path)
    kept.record(evaluate(taken, Memory(), Policy()), 30_000)
    kept.rotate()

    (covered,) = rows(tmp_path, CYCLES)
    assert (covered["partitions_read"], covered["partitions_unread"], covered["is_complete"]) == (2, 0, True)
    assert covered["unread"] == ["orders-1"]
    assert [covered[f"partitions_{result}"] for result in ("unauthorized", "by_offsets", "excluded")] == [0, 0, 1]


def test_partitions_that_are_not_visible_any_more_are_not_closed(tmp_path: Path) -> None:
    """A right was withdrawn: whether what was open there still is, nobody knows."""
    kept, hidden = history(tmp_path), Visibility(hidden_topics=("orders",), gaps=("topics are no longer visible",))
    before = evaluate(snapshot([Entry(partition=2)], transactions=(transaction(),)), Memory(), Policy())
    columns = partitions_of([("payments", 0)])
    for at_s, visibility in ((30, hidden), (60, Visibility())):
        taken = snapshot(visibility=visibility, taken_at_ms=NOW_MS + at_s * 1000)
        kept.record(evaluate(replace(taken, partitions=columns), before.memory, Policy()), 30_000)
    kept.rotate()
    assert [row["unread"] for row in rows(tmp_path, CYCLES)] == [["orders-2"], []]


def test_the_files_have_the_promised_schema(tmp_path: Path) -> None:
    """Also when nothing was open: a reader never guesses a type."""
    kept = history(tmp_path)
    kept.record(cycle(open_transactions=0), 30_000)
    kept.rotate()

    for table, columns in ((OBSERVATIONS, OBSERVATION_COLUMNS), (CYCLES, CYCLE_COLUMNS)):
        (file,) = files(tmp_path, table)
        assert pq.ParquetFile(file).schema_arrow.equals(arrow_schema(columns))


def test_cycles_share_a_file_until_it_is_due(tmp_path: Path) -> None:
    """A few files an hour, not one for each cycle; one for each cluster and day."""
    kept = history(tmp_path)
    for number in range(10):
        kept.record(cycle(NOW_MS + 30_000 * number), 30_000)
    assert files(tmp_path, CYCLES) == []
    kept.rotate()
    kept.record(cycle(NOW_MS + DAY_MS), 30_000)
    kept.record(cycle(NOW_MS + DAY_MS, cluster_id="a/b"), 30_000)
    kept.rotate()

    assert [len(pq.ParquetFile(file).read()) for file in files(tmp_path, CYCLES)] == [1, 10, 1]
    assert {file.parent.parent.name for file in files(tmp_path, CYCLES)} == {"cluster_id=a%2Fb", "cluster_id=cluster-1"}
    facts = kept.status()
    assert (facts.rows, facts.rows_waiting) == (12, 0)
    assert facts.newest_ms == NOW_MS + DAY_MS
    assert facts.size_bytes == sum(file.stat().st_size for file in tmp_path.rglob("*.parquet"))


def test_what_is_too_old_or_too_much_goes(tmp_path: Path) -> None:
    """The oldest first, with its empty folder; other files stay."""
    kept = history(tmp_path)
    for days in (40, 2, 1):
        kept.record(cycle(NOW_MS - days * DAY_MS), 30_000)
    foreign = tmp_path / VERSION / CYCLES / "cluster_id=cluster-1" / "date=2026-12-06" / "notes.parquet"
    kept.rotate()
    assert len(files(tmp_path, CYCLES)) == 2
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("mine")
    size = max(sum(path.stat().st_size for path in files(tmp_path, table)[-1:]) for table in (CYCLES, OBSERVATIONS))

    smaller = history(tmp_path, retention_bytes=2 * size)
    smaller.rotate()

    assert foreign.read_text() == "mine"
    assert [path.parent.name for path in files(tmp_path, CYCLES) if path != foreign] == ["date=2027-01-14"]
    assert not (tmp_path / VERSION / OBSERVATIONS / "cluster_id=cluster-1" / "date=2027-01-13").exists()


def test_the_newest_cycle_on_disk_never_goes_back(tmp_path: Path) -> None:
    """The files of the cluster with the older cycles are written last."""
    kept = history(tmp_path)
    for cluster_id, at_ms in (("a", NOW_MS + 600_000), ("b", NOW_MS + 300_000)):
        kept.record(cycle(at_ms, cluster_id=cluster_id), 30_000)
    kept.rotate()
    assert kept.status().newest_ms == NOW_MS + 600_000


def test_an_old_file_that_cannot_be_removed_does_not_stop_the_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, **named: Any) -> None:
        if path.suffix == ".parquet" and not path.name.startswith(TEMPORARY):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        unlink(path, **named)

    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", refused)
    kept = history(tmp_path)
    for days in (40, 0):
        kept.record(cycle(NOW_MS - days * DAY_MS), 30_000)
        kept.rotate()

    status = kept.status()
    assert (status.rows_waiting, status.newest_ms) == (0, NOW_MS)
    assert str(status.failure).endswith(".parquet cannot be removed: Operation not permitted")


def test_a_reader_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that breaks leaves nothing behind, costs no row, and observations come before their cycle."""
    kept = history(tmp_path)
    kept.record(cycle(), 30_000)
    write, calls = pq.write_table, []

    def breaks(table: Any, file: Any, **options: Any) -> None:
        write(table, file, **options)
        calls.append(file.name)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", breaks)
    kept.rotate()
    assert [OBSERVATIONS in calls[0], CYCLES in calls[1]] == [True, True]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{NOW_MS}-{NOW_MS}-writer-1.parquet"]
    assert kept.status().failure == f"{tmp_path}: No space left on device"
    assert kept.status().rows_waiting == 1

    kept.rotate()
    assert kept.status().failure is None
    assert len(rows(tmp_path, OBSERVATIONS)) == len(rows(tmp_path, CYCLES)) == 1


def test_too_much_that_waits_is_given_up_the_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has an end; what is lost is counted."""
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 3 * module.CYCLE_BYTES)
    kept = history(tmp_path)
    for number in range(4):
        kept.record(cycle(NOW_MS + number, open_transactions=2), 30_000)
    kept.rotate()

    assert (kept.status().rows_lost, kept.status().rows) == (4, 4)
    assert {int(row["taken_at"].timestamp() * 1000) for row in rows(tmp_path, CYCLES)} == {NOW_MS + 2, NOW_MS + 3}


def test_cycles_without_observations_have_an_end_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing is open and the disk is away; the names of unread partitions count."""
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 10 * module.CYCLE_BYTES)
    empty, unread = history(tmp_path), history(tmp_path / "unread")
    for number in range(30):
        empty.record(cycle(NOW_MS + number, open_transactions=0), 30_000)
        taken = snapshot([], unread=range(10_000), partitions=10_000, taken_at_ms=NOW_MS + number)
        unread.record(evaluate(taken, Memory(), Policy()), 30_000)

    assert (empty.status().rows_waiting, empty.status().rows_lost) == (9, 21)
    assert unread.status().rows_lost >= 28


def test_many_small_cycles_are_written_before_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a large fleet take more memory than their rows."""
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 10 * module.CYCLE_BYTES)
    kept = history(tmp_path)
    kept.start()
    for number in range(8):
        kept.record(cycle(NOW_MS + number, open_transactions=0), 30_000)
    until(lambda: kept.status().rows_waiting < 8)
    kept.close()
    assert (len(rows(tmp_path, CYCLES)), kept.status().rows_lost) == (8, 0)


def test_a_disk_that_does_not_respond_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount whose server is away gives no error; other errors than those of disks do not end the thread either."""
    now, seen = [0.0], list[str | None]()
    kept = History(settings(tmp_path), wall_clock=lambda: NOW_MS / 1000, clock=lambda: now[0])
    kept.record(cycle(), 30_000)

    def hangs(*_arguments: Any, **_options: Any) -> None:
        seen.append(kept.status().failure)
        now[0] += module.WRITE_ENDS_SECONDS + 1
        seen.append(kept.status().failure)
        raise RuntimeError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", hangs)
        kept.rotate()
    assert [*seen, kept.status().failure] == [None, f"{tmp_path}: does not respond", f"{tmp_path}: no more"]
    kept.rotate()
    assert (kept.status().failure, kept.status().rows) == (None, 1)


def test_a_clock_that_jumps_ahead_removes_nothing(tmp_path: Path) -> None:
    """A machine that wakes up with a wrong time: the files of the last weeks stay, also after a start in that moment."""
    wall_ms, monotonic = [NOW_MS], [0.0]

    def begun() -> History:
        return History(settings(tmp_path), wall_clock=lambda: wall_ms[0] / 1000, clock=lambda: monotonic[0])

    def rotated(kept: History) -> int:
        kept.rotate()
        return len(files(tmp_path, CYCLES))

    kept = begun()
    for days in (29, 1):
        kept.record(cycle(NOW_MS - days * DAY_MS), 30_000)
    assert rotated(kept) == 2
    wall_ms[0] += 60 * DAY_MS
    assert [rotated(kept), rotated(begun())] == [2, 2]
    monotonic[0] += 3600
    wall_ms[0] += 3_600_000
    assert rotated(kept) == 2
    monotonic[0] += DAY_MS / 1000
    wall_ms[0] += DAY_MS
    assert rotated(kept) == 0


def test_a_directory_that_cannot_be_written_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the log at the first time, by the facts always."""
    (tmp_path / "file").write_text("")
    kept = history(tmp_path / "file")
    kept.record(cycle(), 30_000)
    for _ in range(3):
        kept.rotate()

    assert kept.status().failure == f"{tmp_path / 'file'}: Not a directory"
    assert len([record for record in caplog.records if "history cannot be written" in record.message]) == 1


def test_its_thread_writes_when_a_file_is_due_and_at_the_end(tmp_path: Path) -> None:
    """By time, by number of rows, and what waits when the program ends."""
    kept = history(tmp_path, rotate_interval_ms=50)
    kept.start()
    kept.record(cycle(), 30_000)
    until(lambda: kept.status().rows == 1)
    kept.close()
    ending = history(tmp_path / "end")
    ending.start()
    ending.record(cycle(), 30_000)
    ending.close()

    assert len(rows(tmp_path / "end", CYCLES)) == 1


@pytest.mark.programs
@needs_a_small_disk
def test_a_full_disk_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    """A real one, of 64 kB; once there is room again, what waited is written."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (disk / "ballast").write_bytes(b"x" * 60_000)
        kept = history(disk)
        for number in range(20):
            kept.record(cycle(NOW_MS + number, open_transactions=50), 30_000)
        kept.rotate()
        assert "No space left on device" in (kept.status().failure or "")
        assert kept.status().rows_waiting == 1000
        (disk / "ballast").unlink()
        kept.rotate()
        assert kept.status().failure is None
        assert len(rows(disk, OBSERVATIONS)) == 1000
    finally:
        subprocess.run(["umount", str(disk)], check=True)


Record = Callable[[int], subprocess.Popen[str]]


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    """A process that records and rotates as fast as it can from cycle `first` on, and says each whose file is whole."""
    program = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from tests.evaluation.builders import NOW_MS
        from tests.history.cycles import OPEN, cycle, history
        kept = history(Path({str(tmp_path)!r}))
        for number in range(int(sys.argv[1]), 1_000_000_000):
            kept.record(cycle(NOW_MS + number, open_transactions=OPEN), 30_000)
            kept.rotate()
            print(number, flush=True)
        """
    )
    begun: list[subprocess.Popen[str]] = []

    def record_from(first: int) -> subprocess.Popen[str]:
        begun.append(subprocess.Popen([sys.executable, "-c", program, str(first)], stdout=subprocess.PIPE, text=True))
        return begun[-1]

    yield record_from
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_kill_in_the_middle_of_a_write_loses_and_doubles_nothing(record: Record, tmp_path: Path, kills: int) -> None:
    """At random instants of its writing: every cycle that it spoke of is there once, with each of its rows once.

    Of the one that it was about, all is there or nothing, or its observations, which wait for their cycle.
    """
    random_ = random.Random(3)
    spoken: set[int] = set()
    for kill in range(kills):
        first = kill * 1_000_000
        process = record(first)
        assert process.stdout is not None
        before = [int(process.stdout.readline()) for _ in range(5)]
        time.sleep(random_.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate(timeout=PATIENCE_S)
        spoken |= {*before, *(int(line) for line in output.splitlines(keepends=True) if line.endswith("\n"))}

    taken = Counter(_number(row) for row in rows(tmp_path, CYCLES))
    observed = Counter(_number(row) for row in rows(tmp_path, OBSERVATIONS))
    assert taken.keys() >= spoken
    assert len(taken.keys() - spoken) <= kills
    assert set(taken.values()) == {1}
    assert observed.keys() >= taken.keys()
    assert len(observed.keys() - taken.keys()) <= kills
    assert set(observed.values()) == {OPEN}
    shutil.rmtree(tmp_path / VERSION)


def _number(row: dict[str, Any]) -> int:
    return int(row["taken_at"].timestamp() * 1000) - NOW_MS
