"""Consumer groups that suspects block: which ones, behind how many records, and since when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from exporter.commands.recover import groups_in_words
from exporter.commands.transactions_table import render_tables
from exporter.evaluation.document import document
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import GroupKey, Memory, RememberedBlock
from exporter.evaluation.verdicts import BlockedGroup, Evaluation, Policy
from exporter.publication.page.humanize import humanize_groups
from exporter.snapshot import NO_PRODUCER_ID, OFFSETS_TOPIC, UNKNOWN_OFFSET, GroupOffset, Impact, SecondRead, Snapshot
from tests.evaluation.builders import MINUTE_MS, NOW_MS, Entry, listed, partitions_of, proof, snapshot

HANG = Entry(second_read=SecondRead.UNCHANGED, start_offset=100, last_stable_offset=100, high_watermark=150)
READERS = BlockedGroup(group="readers", topic="orders", partition=0, records=50, since_ms=NOW_MS)


def at(*offsets: int, group: str = "readers", failures: tuple[str, ...] = ()) -> Impact:
    """Groups that have committed these offsets on orders-0."""
    committed = tuple(GroupOffset(group=group, topic="orders", partition=0, offset=offset) for offset in offsets)
    return Impact(offsets=committed, residents=(), failures=failures)


def hang(impact: Impact | None, *, later_ms: int = 0, entry: Entry = HANG) -> Snapshot:
    return snapshot([entry], proof=proof(), impact=impact, taken_at_ms=NOW_MS + later_ms)


@pytest.mark.parametrize(
    ("offset", "is_blocked"),
    [
        pytest.param(100, True, id="at the last stable offset"),
        pytest.param(99, True, id="an end marker before it: clients that commit after their last record"),
        pytest.param(98, False, id="still has records to read"),
        pytest.param(101, False, id="reads uncommitted records"),
        pytest.param(150, False, id="reads uncommitted records, to the end"),
    ],
)
def test_a_group_at_the_last_stable_offset_is_blocked(offset: int, *, is_blocked: bool) -> None:
    result = evaluate(hang(at(offset)), Memory(), Policy())

    assert result.blocked_groups == ((READERS,) if is_blocked else ())
    assert [group.blocked_since_ms for group in result.suspects[0].groups] == [NOW_MS if is_blocked else None]
    assert all_rows(result)[0].groups == result.suspects[0].groups


@pytest.mark.parametrize("unknown", ["last_stable_offset", "high_watermark"])
def test_without_both_ends_no_group_is_called_blocked(unknown: str) -> None:
    entry = replace(HANG, **{unknown: UNKNOWN_OFFSET})  # type: ignore[arg-type]  # both are integers
    result = evaluate(hang(at(100), entry=entry), Memory(), Policy())

    assert result.blocked_groups == ()


def test_no_group_is_blocked_where_no_record_waits() -> None:
    entry = Entry(second_read=SecondRead.UNCHANGED, start_offset=100, last_stable_offset=100, high_watermark=100)

    assert evaluate(hang(at(100), entry=entry), Memory(), Policy()).blocked_groups == ()


def test_a_transaction_that_is_not_a_suspect_blocks_no_group() -> None:
    entry = Entry(start_offset=100, last_stable_offset=100, high_watermark=150)
    result = evaluate(snapshot([entry], transactions=(listed(),), impact=at(100)), Memory(), Policy())

    assert result.suspects == ()
    assert result.blocked_groups == ()


def test_of_two_suspects_on_a_partition_the_first_one_blocks_a_group() -> None:
    """An abort of the second one would let nobody read on."""
    entries = [
        HANG,
        Entry(
            producer_id=8,
            second_read=SecondRead.UNCHANGED,
            start_offset=120,
            last_stable_offset=100,
            high_watermark=150,
        ),
    ]
    result = evaluate(snapshot(entries, proof=proof(), impact=at(100)), Memory(), Policy())

    assert result.blocked_groups == (READERS,)
    assert {row.start_offset: [group.blocked_since_ms for group in row.groups] for row in result.suspects} == {
        100: [NOW_MS],
        120: [None],
    }


def test_a_hang_whose_first_records_are_deleted_blocks_where_the_log_begins() -> None:
    """The last stable offset is never before the log: it is behind the start of the transaction that holds it."""
    result = evaluate(hang(at(100), entry=replace(HANG, start_offset=90)), Memory(), Policy())

    assert result.blocked_groups == (READERS,)
    assert [group.blocked_since_ms for group in result.suspects[0].groups] == [NOW_MS]


def test_the_first_cycle_is_remembered_and_forgotten_with_the_block() -> None:
    """A group that reads on and is blocked again has a new first cycle."""
    first = evaluate(hang(at(100)), Memory(), Policy())
    second = evaluate(hang(at(100), later_ms=MINUTE_MS), first.memory, Policy())
    gone = evaluate(hang(at(98), later_ms=2 * MINUTE_MS), second.memory, Policy())
    again = evaluate(hang(at(100), later_ms=3 * MINUTE_MS), gone.memory, Policy())

    assert second.blocked_groups[0].since_ms == NOW_MS
    assert gone.memory.blocked == {}
    assert again.blocked_groups[0].since_ms == NOW_MS + 3 * MINUTE_MS


def test_those_who_stand_still_are_named_before_those_with_a_larger_lag() -> None:
    """Texts name five groups: the only one that is blocked was left out."""
    offsets = (*at(10, group="far-behind").offsets, *at(100).offsets, *at(20, group="behind").offsets)
    taken = hang(Impact(offsets=offsets, residents=(), failures=()))
    (row,) = all_rows(evaluate(taken, evaluate(taken, Memory(), Policy()).memory, Policy()))

    assert [group.group for group in row.groups] == ["readers", "far-behind", "behind"]


def test_page_json_and_metric_have_one_start_of_a_block_by_the_cluster_s_clock() -> None:
    """A command's JSON has its own first cycle, and its text names no duration, also after it has looked twice."""
    ahead_ms = 5 * MINUTE_MS

    def seen(later_ms: int, memory: Memory) -> Evaluation:
        return evaluate(replace(hang(at(100), later_ms=later_ms), clock_offset_ms=ahead_ms), memory, Policy())

    twice = seen(MINUTE_MS, seen(0, Memory()).memory)
    (row,) = all_rows(twice)
    (entry,) = document(twice, [row])["transactions"]

    assert entry["groups"][0]["blocked_since_ms"] == twice.blocked_groups[0].since_ms == NOW_MS + ahead_ms
    (on_the_page,) = humanize_groups(row, twice.snapshot.cluster_time_ms)
    assert on_the_page == "readers (seen blocked for 1 min 0 s, lag 50 offsets)"
    printed = render_tables([(None, twice, [row])], is_fleet=False)
    assert "Consumer groups: readers (blocked, lag 50 offsets)." in printed
    assert (
        groups_in_words(row, twice)
        == "consumer groups (their lag counts end markers too): readers (blocked, lag 50 offsets) "
        "(of those that this login sees)"
    )
    elsewhere = replace(row.groups[0], waiting_records=1, blocked_since_ms=None)
    assert humanize_groups(replace(row, groups=(elsewhere,))) == ["readers (lag 1 offset)"]


def test_what_is_taken_for_an_end_marker_is_said_wherever_its_group_is_named() -> None:
    """Without READ the log behind a position one short of the transaction is unread: a record there can be read first."""
    twice = evaluate(hang(at(99), later_ms=1), evaluate(hang(at(99)), Memory(), Policy()).memory, Policy())
    (row,) = all_rows(twice)
    unread = replace(row, producer_id=NO_PRODUCER_ID)

    assert humanize_groups(row) == ["readers (blocked, lag 51 offsets)"]
    assert humanize_groups(unread) == ["readers (blocked if the offset before it is an end marker, lag 51 offsets)"]


@pytest.mark.parametrize("impact", [None, at(failures=("broker 2 does not respond",))], ids=["none", "partial"])
def test_a_cycle_that_could_not_read_groups_keeps_the_first(impact: Impact | None) -> None:
    """Such a cycle publishes no group, since it knows none."""
    first = evaluate(hang(at(100)), Memory(), Policy())
    unread = evaluate(hang(impact, later_ms=MINUTE_MS), first.memory, Policy())
    second = evaluate(hang(at(100), later_ms=2 * MINUTE_MS), unread.memory, Policy())

    assert unread.blocked_groups == ()
    assert unread.memory.blocked == {GroupKey("readers", "orders", 0): RememberedBlock(NOW_MS, 100)}
    assert second.blocked_groups[0].since_ms == NOW_MS


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [("a", "a", True), ("a", "b", False), ("", "b", True)],
    ids=["same", "new", "old file"],
)
def test_a_block_is_of_one_topic_and_not_of_the_next_one_with_its_name(
    before: str, after: str, *, is_same: bool
) -> None:
    """A cluster that is made again has the same names and often the same id: its groups have not waited since before."""

    def seen(later_ms: int, topic_id: str, memory: Memory, impact: Impact | None = None) -> Evaluation:
        taken = hang(at(100) if impact is None else impact, later_ms=later_ms)
        return evaluate(replace(taken, partitions=replace(taken.partitions, topic_ids=(topic_id,))), memory, Policy())

    first = seen(0, before, Memory())
    second = seen(MINUTE_MS, after, first.memory)
    unread = seen(MINUTE_MS, after, first.memory, at(failures=("broker 2 does not respond",)))

    assert second.blocked_groups[0].since_ms == (NOW_MS if is_same else NOW_MS + MINUTE_MS)
    assert list(unread.memory.blocked.values()) == ([RememberedBlock(NOW_MS, 100)] if is_same else [])


def test_a_group_that_reads_on_is_blocked_since_its_newest_stand() -> None:
    """Transactions of a minute, one after the other, each met when it is half over: it passes every one of them."""
    memory, since_ms = Memory(), []
    for number in range(4):
        start = 100 + 1_000 * number
        entry = replace(HANG, start_offset=start, last_stable_offset=start, high_watermark=start + 50)
        result = evaluate(hang(at(start), later_ms=number * MINUTE_MS, entry=entry), memory, Policy())
        memory = result.memory
        since_ms += [block.since_ms - NOW_MS for block in memory.blocked.values()]

    assert since_ms == [0, MINUTE_MS, 2 * MINUTE_MS, 3 * MINUTE_MS]


def test_a_block_of_an_earlier_version_s_file_has_no_offset() -> None:
    """The group may have read on since; that it has not is the better guess."""
    known = Memory(
        cluster_id=hang(None).cluster_id, blocked={GroupKey("readers", "orders", 0): RememberedBlock(NOW_MS)}
    )
    result = evaluate(hang(at(100), later_ms=MINUTE_MS), known, Policy())

    assert [group.since_ms for group in result.blocked_groups] == [NOW_MS]
    assert list(result.memory.blocked.values()) == [RememberedBlock(NOW_MS, 100)]


def test_a_leader_that_is_gone_for_a_while_ends_no_block() -> None:
    """The group stands at the same offset when the broker is back; what is read and not held is forgotten."""
    first = evaluate(hang(at(100)), Memory(), Policy())
    gone = evaluate(snapshot([], unread=[0], taken_at_ms=NOW_MS + MINUTE_MS), first.memory, Policy())
    back = evaluate(hang(at(100), later_ms=2 * MINUTE_MS), gone.memory, Policy())
    ended = evaluate(snapshot([], taken_at_ms=NOW_MS + MINUTE_MS), first.memory, Policy())

    assert gone.blocked_groups == ()
    assert back.blocked_groups[0].since_ms == NOW_MS
    assert ended.memory.blocked == {}


def test_a_group_that_cannot_read_its_own_offsets_is_blocked_like_any_other() -> None:
    """Alerts, metrics and incidents said of a hang on `__consumer_offsets` that nobody waits."""
    columns = partitions_of([(OFFSETS_TOPIC, 0)], producers=np.ones(1, dtype=np.int32))
    pending = Impact(offsets=(), residents=((0, "readers"),), failures=())

    def seen(later_ms: int, memory: Memory) -> Evaluation:
        return evaluate(replace(hang(pending, later_ms=later_ms), partitions=columns), memory, Policy())

    entry = replace(HANG, last_stable_offset=120, start_offset=120)
    first = seen(0, Memory())
    others_end = evaluate(
        replace(hang(pending, later_ms=MINUTE_MS, entry=entry), partitions=columns), first.memory, Policy()
    )
    second = seen(MINUTE_MS, first.memory)

    assert [one.since_ms for one in others_end.blocked_groups] == [NOW_MS], "commits of other groups end no block"
    assert [(one.group, one.topic, one.since_ms) for one in second.blocked_groups] == [
        ("readers", OFFSETS_TOPIC, NOW_MS)
    ]
    assert humanize_groups(second.suspects[0], second.snapshot.cluster_time_ms) == [
        "readers (seen blocked for 1 min 0 s)"
    ]


def test_who_only_passes_by_a_new_hang_is_not_blocked() -> None:
    """A reader of uncommitted records that keeps up stands there until its next commit. The first cycle takes all."""
    before = evaluate(snapshot([], taken_at_ms=NOW_MS - MINUTE_MS), Memory(), Policy())
    first = evaluate(hang(at(100)), before.memory, Policy())
    passed = evaluate(hang(at(150), later_ms=1000), first.memory, Policy())
    stays = evaluate(hang(at(100), later_ms=1000), first.memory, Policy())
    old = evaluate(hang(at(100), later_ms=MINUTE_MS), before.memory, Policy())

    assert (first.blocked_groups, passed.blocked_groups) == ((), ())
    assert [group.blocked_since_ms for group in first.suspects[0].groups] == [None]
    assert stays.blocked_groups[0].since_ms == NOW_MS
    assert len(old.blocked_groups) == 1, "it is open for blocked.after"


def test_blocked_groups_of_another_cluster_are_forgotten() -> None:
    first = evaluate(hang(at(100)), Memory(), Policy())
    other = snapshot([HANG], proof=proof(), impact=at(100), taken_at_ms=NOW_MS + 5, cluster_id="cluster-2")

    assert evaluate(other, first.memory, Policy()).blocked_groups[0].since_ms == NOW_MS + 5
