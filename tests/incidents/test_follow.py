"""Incidents over cycles: which suspects are joined, what the time line says, and when an incident is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.evaluation.verdicts import Verdict
from exporter.incidents.follow import causes_of, unexplained, with_causes
from exporter.incidents.incident import JOINED_SECONDS, EventKind, Incident, Incidents
from exporter.snapshot import (
    NO_PRODUCER_ID,
    CoordinatorCoverage,
    EndMarker,
    EndMarkers,
    HeldOffset,
    PartitionResult,
    Snapshot,
    StatePartitionProof,
    Visibility,
)
from tests.evaluation.builders import NOW_MS, Entry, partitions_of, proof, snapshot, transaction
from tests.incidents.cycles import SECOND_MS, Cycles, blocked, hang

FAILED = (CoordinatorCoverage(broker=1, failure="broker 1 did not respond"),)
UNPROVED = proof(state_partitions=(StatePartitionProof(partition=0, leader=1, failure="loading"),))


def kinds(incident: Incident) -> list[tuple[int, EventKind]]:
    """Seconds after the first cycle, and what happened then."""
    return [((event.at_ms - NOW_MS) // SECOND_MS, event.kind) for event in incident.events]


def test_a_healthy_cluster_has_none_and_costs_nothing() -> None:
    cycles = Cycles()
    first = cycles.cycle(0)
    assert first.all == ()
    assert cycles.cycle(30) is first


def test_an_incident_is_followed_from_its_first_cycle_to_its_end() -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()])
    cycles.cycle(30, [hang()], impact=blocked("readers"))
    (incident,) = cycles.cycle(60, [hang(high_watermark=400)], impact=blocked("readers")).all
    assert (incident.id, incident.is_over, incident.ended_ms) == ("20270115T080000000Z", False, None)
    (incident,) = cycles.cycle(90).all
    assert (incident.is_over, incident.ended_ms) == (True, NOW_MS + 90 * SECOND_MS + 40), (
        "its marker may have come in the cycle"
    )
    assert (incident.worst, incident.partitions, incident.groups) == (
        Verdict.HANGING_NO_TRANSACTIONAL_ID,
        ("orders-0",),
        ("readers",),
    )
    assert incident.records_held_back == 300
    assert kinds(incident) == [
        (-1, EventKind.FIRST_RECORD),
        (0, EventKind.FIRST_SEEN),
        (0, EventKind.VERDICT),
        (30, EventKind.GROUP_BLOCKED),
        (90, EventKind.ENDED),
    ]


def test_a_group_that_only_passes_by_has_not_waited() -> None:
    """A reader of uncommitted records that keeps up stands at a new hang until its next commit, and never waits."""
    cycles = Cycles()
    cycles.cycle(-10)
    cycles.cycle(0, [hang()], impact=blocked("passing"))
    cycles.cycle(10, [hang()], impact=blocked("readers"))
    (incident,) = cycles.cycle(20, [hang()], impact=blocked("readers")).all

    assert incident.groups == ("readers",)
    assert [event.at_ms - NOW_MS for event in incident.events if event.kind is EventKind.GROUP_BLOCKED] == [10_000]


def test_all_instants_are_of_the_clock_of_this_machine() -> None:
    """The cluster's clock is an hour ahead of it."""
    cycles, ahead_ms = Cycles(), 3_600 * SECOND_MS
    written = hang(last_timestamp_ms=NOW_MS + ahead_ms - SECOND_MS)
    for at_s in (0, 30, 60):
        impact = None if at_s == 0 else blocked("readers")
        cycles.cycle(at_s, [written], impact=impact, clock_offset_ms=ahead_ms)
    (incident,) = cycles.incidents.all

    assert incident.started_ms == NOW_MS
    assert kinds(incident) == [
        (-1, EventKind.FIRST_RECORD),
        (0, EventKind.FIRST_SEEN),
        (0, EventKind.VERDICT),
        (30, EventKind.GROUP_BLOCKED),
    ]


def test_what_has_ended_stays_in_an_incident_that_goes_on() -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang(), hang(1)])
    for at_s in (30, 60):
        cycles.cycle(at_s, [hang(1)])
    (incident,) = cycles.incidents.all

    assert (incident.is_over, incident.partitions) == (False, ("orders-0", "orders-1"))
    assert [suspect.ended_at_ms is None for suspect in incident.suspects] == [False, True]


def test_the_outcome_elsewhere_is_reported() -> None:
    """A COMMIT marker on another partition, after the last write."""
    marker = EndMarker(
        producer_id=7, producer_epoch=3, topic="orders", partition=1, offset=40, timestamp_ms=NOW_MS, commit=True
    )

    (incident,) = Cycles().cycle(0, [hang()], end_markers=EndMarkers(markers=(marker,))).all

    (outcome,) = (event.sentence for event in incident.events if event.kind is EventKind.OUTCOME)
    assert outcome.startswith("by the evidence the transaction on orders-0 may have been committed (")


def test_a_verdict_that_changes_is_reported_once() -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()], proof=UNPROVED)
    cycles.cycle(30, [hang()], proof=UNPROVED)
    (incident,) = cycles.cycle(60, [hang()]).all
    verdicts = [event.sentence.split(":")[0] for event in incident.events if event.kind is EventKind.VERDICT]
    assert verdicts == [
        "the transaction on orders-0 is inconclusive",
        "the transaction on orders-0 is hanging_no_transactional_id",
    ]
    assert (incident.started_ms, incident.worst) == (NOW_MS, Verdict.HANGING_NO_TRANSACTIONAL_ID)


def test_a_start_that_only_the_proof_shows_is_reported_once() -> None:
    """Before the proof the first cycle counts, after it the last write, which is earlier."""
    written_ms = NOW_MS - 5 * SECOND_MS
    cycles = Cycles()
    cycles.cycle(0, [hang(last_timestamp_ms=written_ms)], proof=UNPROVED)
    cycles.cycle(30, [hang(last_timestamp_ms=written_ms)])
    (incident,) = cycles.cycle(60, [hang(last_timestamp_ms=written_ms)]).all
    assert [event.at_ms for event in incident.events if event.kind is EventKind.FIRST_RECORD] == [written_ms]
    assert incident.suspects[0].start_ms == written_ms


@pytest.mark.parametrize(("later_s", "incidents"), [(JOINED_SECONDS, 1), (JOINED_SECONDS + 1, 2)])
def test_a_suspect_that_begins_soon_after_another_belongs_to_its_incident(later_s: int, incidents: int) -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()])
    assert len(cycles.cycle(later_s, [hang(), hang(1, producer_id=8)]).all) == incidents


def test_the_same_transaction_on_another_partition_belongs_to_its_incident_whenever_it_is_found() -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()])
    (incident,) = cycles.cycle(10 * JOINED_SECONDS, [hang(), hang(1)]).all
    assert incident.partitions == ("orders-0", "orders-1")


def test_where_its_partition_cannot_be_read_an_incident_goes_on() -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()])
    (incident,) = cycles.cycle(30, unread=[0]).all
    assert not incident.is_over
    (incident,) = cycles.cycle(60).all
    assert incident.is_over


@pytest.mark.parametrize(("hidden", "is_over"), [((), True), (("orders",), False)])
def test_a_topic_that_is_deleted_ends_it_and_one_that_is_hidden_does_not(
    *, hidden: tuple[str, ...], is_over: bool
) -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()])
    others = replace(snapshot(partitions=3).partitions, topics=("payments",))
    (incident,) = cycles.cycle(30, columns=others, visibility=Visibility(hidden_topics=hidden)).all
    assert incident.is_over is is_over


def test_a_topic_that_is_made_again_with_fewer_partitions_ends_it() -> None:
    """Its name is there, and the partition is not."""
    cycles = Cycles()
    cycles.cycle(0, [hang(partition=2)])
    unlisted = Visibility(gaps=("no broker is known to have current metadata",))
    (open_,) = cycles.cycle(15, columns=partitions_of([("orders", 0)]), visibility=unlisted).all
    assert len(cycles.memory.transactions) == 1
    (over,) = cycles.cycle(30, columns=partitions_of([("orders", 0)])).all

    assert (open_.is_over, over.is_over) == (False, True)
    assert over.events[-1].sentence == "partition orders-2 does not exist any more"
    assert len(cycles.memory.transactions) == 0


def test_a_topic_that_is_deleted_ends_it_although_another_is_never_read() -> None:
    """A login without READ on one topic is usual, and makes no cycle complete; the list of topics is whole."""
    cycles = Cycles()
    cycles.cycle(0, [hang()])
    unread = partitions_of([("secret", 0)], {0: (PartitionResult.UNAUTHORIZED, "not authorized")})
    (incident,) = cycles.cycle(30, columns=unread, coordinators=FAILED).all

    assert incident.events[-1].sentence == "partition orders-0 does not exist any more"
    assert len(cycles.memory.transactions) == 0


def test_a_partition_that_is_not_listed_for_a_day_keeps_no_incident_open() -> None:
    """Whether it is deleted stays unknown, as without DESCRIBE on `__transaction_state`."""
    cycles, others = Cycles(), partitions_of([("payments", 0)])
    cycles.cycle(0, [hang()])
    gaps = Visibility(gaps=("some coordinators may be unknown: not authorized",))
    (open_,) = cycles.cycle(23 * 3600, columns=others, visibility=gaps).all
    (over,) = cycles.cycle(25 * 3600, columns=others, visibility=gaps).all

    assert (open_.is_over, over.is_over) == (False, True)
    assert (
        over.events[-1].sentence
        == "partition orders-0 is not visible any more: its transaction is not followed any longer"
    )


def by_offset(at_s: int) -> Snapshot:
    """The transaction of `hang`, on a partition that this login may not read."""
    entry = hang(producer_id=NO_PRODUCER_ID, producer_epoch=-1, last_sequence=-1, last_timestamp_ms=-1)
    taken = snapshot([entry], proof=proof(), offset_proof=proof(), taken_at_ms=NOW_MS + at_s * SECOND_MS)
    answer = taken.partitions.answer.copy()
    answer[0] = PartitionResult.BY_OFFSETS
    held = HeldOffset(leader_epoch=5, described=((), ()), later=())
    return replace(
        taken,
        partitions=replace(taken.partitions, answer=answer),
        open_transactions=replace(taken.open_transactions, held_offsets=(held,)),
    )


def test_a_hang_whose_producer_becomes_visible_is_the_same_one() -> None:
    """READ is granted, as the reason advises, and withdrawn again: neither its age nor its incident begins again."""
    cycles = Cycles()
    cycles.take(by_offset(0))
    cycles.take(by_offset(15))
    cycles.cycle(7_200, [hang(last_timestamp_ms=-1)])
    (remembered,) = cycles.memory.transactions.examined
    (incident,) = cycles.take(by_offset(7_215)).all
    (last,) = cycles.cycle(7_230, [hang(last_timestamp_ms=-1)]).all
    (over,) = cycles.cycle(7_245).all

    assert remembered.first_seen_ms == NOW_MS
    assert [suspect.key.producer_id for suspect in (*incident.suspects, *last.suspects)] == [7, 7]
    assert [suspect.verdict for suspect in (*incident.suspects, *last.suspects)] == [
        Verdict.HANGING_BY_OFFSETS,
        Verdict.HANGING_NO_TRANSACTIONAL_ID,
    ]
    assert over.is_over
    assert [kind for _, kind in kinds(over)].count(EventKind.ENDED) == 1


def test_a_restart_goes_on_with_the_same_incident() -> None:
    cycles = Cycles()
    before = cycles.cycle(0, [hang()])
    (incident,) = Cycles(before).cycle(30, [hang()]).all
    assert (incident.id, len(incident.suspects)) == (before.all[0].id, 1)


def test_another_cluster_begins_with_none() -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()])
    assert cycles.cycle(30, cluster_id="cluster-2").all == ()


def test_suspects_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.incidents.follow.SUSPECTS_MAX", 2)
    cycles = Cycles()
    (incident,) = cycles.cycle(0, [hang(partition, producer_id=partition) for partition in range(3)]).all
    assert (len(incident.suspects), incident.more_suspects) == (2, 1)


def test_suspects_beyond_the_limit_begin_no_incident_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same ones that were counted, for as long as the incident is open."""
    monkeypatch.setattr("exporter.incidents.follow.SUSPECTS_MAX", 2)
    cycles = Cycles()
    hangs = [hang(partition, producer_id=partition) for partition in range(3)]
    (before,) = cycles.cycle(0, hangs).all
    assert cycles.cycle(JOINED_SECONDS + 30, hangs).all == (before,)
    over, rest = cycles.cycle(JOINED_SECONDS + 60, hangs[2:]).all
    assert (over.is_over, rest.is_over, rest.partitions) == (True, False, ("orders-2",))


def test_events_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.incidents.incident.EVENTS_MAX", 2)
    cycles = Cycles()
    (incident,) = cycles.cycle(0, [hang()]).all
    assert (len(incident.events), incident.more_events) == (2, 1)


STEP_S = JOINED_SECONDS + 1


def with_short_hangs(long: Entry, count: int) -> Cycles:
    """While one transaction hangs, others begin and end, an incident each."""
    cycles = Cycles()
    cycles.cycle(0, [long])
    for number in range(1, count + 1):
        cycles.cycle(number * STEP_S, [long, hang(0, start_offset=100 + number)])
        cycles.cycle(number * STEP_S + 30, [long])
    return cycles


def starts_s(incidents: Incidents) -> list[int]:
    return [(incident.started_ms - NOW_MS) // SECOND_MS for incident in incidents.all]


def test_of_many_incidents_the_oldest_that_are_over_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.incidents.follow.INCIDENTS_MAX", 2)
    cycles = with_short_hangs(hang(2, producer_id=9), 3)
    assert starts_s(cycles.incidents) == [0, 3 * STEP_S]


def test_of_many_incidents_the_one_that_ended_just_now_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lasted longer than all others, and its post-mortem is not written yet."""
    monkeypatch.setattr("exporter.incidents.follow.INCIDENTS_MAX", 3)
    cycles = with_short_hangs(hang(2, producer_id=9), 2)
    cycles.cycle(3 * STEP_S)
    cycles.cycle(4 * STEP_S, [hang(0, start_offset=200)])
    assert starts_s(cycles.incidents) == [0, 2 * STEP_S, 4 * STEP_S]


def test_where_all_are_open_no_incident_is_dropped_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("follow", "incident"):
        monkeypatch.setattr(f"exporter.incidents.{module}.INCIDENTS_MAX", 2)
    cycles = Cycles()
    for count in (1, 2, 3):
        cycles.cycle(count * STEP_S, [hang(partition, producer_id=partition) for partition in range(count)])
    assert [len(incident.suspects) for incident in cycles.incidents.all] == [1, 2]


def test_after_a_clock_was_set_back_a_suspect_joins_no_incident_of_the_future() -> None:
    cycles = Cycles()
    cycles.cycle(86_400, [hang()])
    cycles.cycle(86_430)
    ahead, now = cycles.cycle(5 * 3600, [hang(1, producer_id=9)]).all
    assert (ahead.is_over, len(ahead.suspects)) == (True, 1)
    assert (now.is_over, now.partitions) == (False, ("orders-1",))


def test_a_suspect_that_is_owned_after_all_stays_in_its_incident_until_it_ends() -> None:
    cycles = Cycles()
    cycles.cycle(0, [hang()], proof=UNPROVED)
    (incident,) = cycles.cycle(30, [Entry()], proof=None, transactions=(transaction(),)).all
    assert (incident.is_over, incident.events[-1].sentence) == (
        False,
        "the transaction on orders-0 is not a suspect any more: open_within_timeout",
    )
    assert incident.suspects[0].transactional_id == "app-1", "it was not known while its coordinator was away"
    assert cycles.cycle(45, [Entry()], proof=None, transactions=(transaction(),)) is cycles.incidents
    (incident,) = cycles.cycle(60).all
    assert (incident.is_over, incident.worst) == (True, Verdict.INCONCLUSIVE)


def test_a_cause_is_searched_for_where_the_verdict_is_final() -> None:
    """Once, while it is open: what is only suspected may still end by itself."""
    cycles = Cycles()
    unproved = cycles.cycle(0, [hang()], proof=UNPROVED)
    proved = cycles.cycle(30, [hang()])
    (suspect,) = unexplained(proved)

    explained = with_causes(
        proved, {suspect.key: ("late_write", "its marker is at offset 99")}, NOW_MS + 31 * SECOND_MS
    )

    assert unexplained(unproved) == []
    assert unexplained(explained) == []
    assert causes_of(proved) == {}
    assert causes_of(explained) == {suspect.key: "late_write"}
    (incident,) = explained.all
    assert (incident.suspects[0].cause, incident.suspects[0].because) == ("late_write", "its marker is at offset 99")
    assert kinds(incident)[-1] == (31, EventKind.CAUSE)


@pytest.mark.parametrize("jump_s", [86_400, -86_400])
@pytest.mark.parametrize("first_proved_s", [0, 60])
def test_a_clock_that_is_set_moves_no_incident(jump_s: int, first_proved_s: int) -> None:
    """The cluster's clock is set while the suspect is followed, or between its first cycle and its proof."""
    cycles = Cycles()
    ahead = hang(last_timestamp_ms=NOW_MS + 7 * 86_400_000)  # by a client whose clock says nothing
    owned: dict[str, Any] = {"proof": None, "transactions": (transaction(start_ms=NOW_MS),)}
    cycles.cycle(0, [ahead], **(owned if first_proved_s else {}))
    jumped: dict[str, Any] = {"clock_offset_ms": jump_s * SECOND_MS}
    cycles.cycle(60, [ahead], **jumped)
    cycles.cycle(90, [ahead], impact=blocked("g"), **jumped)
    (incident,) = cycles.cycle(120, [ahead]).all

    (suspect,) = incident.suspects
    assert suspect.start_ms == NOW_MS
    assert all(NOW_MS <= event.at_ms <= NOW_MS + 120 * SECOND_MS for event in incident.events), incident.events
