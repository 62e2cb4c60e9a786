"""A producer that cannot start is an incident of its own, from the first cycle that calls it stuck to its end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporter.evaluation.verdicts import Verdict
from exporter.incidents.document import document, incidents_of
from exporter.incidents.follow import new_suspects, unexplained
from exporter.incidents.incident import JOINED_SECONDS, NO_INCIDENTS, EventKind, Incidents
from exporter.publication.page.post_mortem import in_one_sentence
from exporter.snapshot import STATE_TOPIC, CoordinatorCoverage, MarkerFinding, PartitionResult
from tests.evaluation.builders import MINUTE_MS, partitions_of
from tests.evaluation.stuck import BEGAN_MS, marker
from tests.incidents.cycles import StuckProducer, hang


def test_from_first_sight_to_its_end() -> None:
    """Its place is the coordinator's log; a later cycle with the same evidence changes nothing."""
    stuck = StuckProducer()
    first = stuck.cycle()
    assert stuck.cycle(later_ms=MINUTE_MS) is first
    (incident,) = first.all
    (suspect,) = incident.suspects
    assert (suspect.name, suspect.transactional_id, suspect.worst) == (
        "__transaction_state-3",
        "app-1",
        Verdict.STUCK_COMPLETING,
    )
    assert "gets CONCURRENT_TRANSACTIONS" in suspect.reason
    assert [event.kind for event in incident.events] == [EventKind.FIRST_RECORD, EventKind.VERDICT]
    assert not incident.is_over

    (over,) = stuck.cycle(later_ms=2 * MINUTE_MS, is_over=True).all
    assert (over.id, over.is_over, over.events[-1].kind) == (incident.id, True, EventKind.ENDED)


def test_a_contradiction_that_appears_is_kept_when_everything_is_over() -> None:
    """Which records were lost is nowhere else, once the coordinator has completed the transaction."""
    stuck = StuckProducer()
    stuck.cycle(marker(MarkerFinding.UNKNOWN))
    contradicted = stuck.cycle(marker(MarkerFinding.CONTRADICTED), later_ms=MINUTE_MS)
    assert contradicted.all[0].is_critical
    assert stuck.cycle(marker(MarkerFinding.UNKNOWN), later_ms=2 * MINUTE_MS) is contradicted, "forgotten is not undone"
    (incident,) = stuck.cycle(later_ms=3 * MINUTE_MS, is_over=True).all
    assert incidents_of(json.loads(json.dumps(document(contradicted)))) == contradicted

    said = "orders-0 at offset 7 has an ABORT marker: its records are dropped, although their commit is decided."
    assert said in incident.suspects[0].reason
    assert said in incident.events[-2].sentence


@pytest.mark.parametrize(
    "coordinators", [(), (CoordinatorCoverage(broker=1, failure="timed out"),)], ids=["nobody", "one is silent"]
)
def test_where_a_coordinator_has_not_responded_nothing_is_over(coordinators: tuple[CoordinatorCoverage, ...]) -> None:
    stuck = StuckProducer()
    first = stuck.cycle()

    assert stuck.cycle(later_ms=MINUTE_MS, is_over=True, coordinators=coordinators) is first


def test_where_its_coordinator_is_gone_nothing_is_over() -> None:
    """No broker lists what nobody coordinates: the transaction is as it was when the broker comes back."""
    stuck = StuckProducer()
    first = stuck.cycle()
    home = [("orders", 0), *((STATE_TOPIC, number) for number in range(4))]

    def seen(*unread: int) -> Incidents:
        columns = partitions_of(home, dict.fromkeys(unread, (PartitionResult.UNAVAILABLE, "no_leader")))
        return stuck.cycle(later_ms=MINUTE_MS, is_over=True, partitions=columns)

    assert seen(4) is first
    assert seen(3).all[0].is_over, "another coordinator"


def test_an_open_incident_counts_who_cannot_start_now_and_each_once() -> None:
    """Two of three have ended, of which one is stuck a second time."""
    (incident,) = StuckProducer().cycle().all
    (one,) = incident.suspects
    ended = replace(one, ended_at_ms=one.suspect_at_ms + 90_000)
    other = replace(ended, key=one.key._replace(producer_id=8))
    now = replace(incident, suspects=(ended, other, one))
    over = replace(incident, suspects=(ended, other, ended))

    assert in_one_sentence(now) == "1 producer cannot start"
    assert in_one_sentence(over) == "2 producers could not start, within 1 min 30 s"
    assert in_one_sentence(replace(over, suspects=(ended,))) == "1 producer could not start, for at least 1 min 30 s"


def test_what_is_open_on_a_partition_is_a_suspect_there() -> None:
    """One transaction is one suspect; a marker that contradicts the decision is always one at its coordinator, too."""
    stuck = StuckProducer()
    assert stuck.cycle(marker(MarkerFinding.MISSING)).all == ()
    (incident,) = stuck.cycle(marker(MarkerFinding.MISSING), marker(MarkerFinding.CONTRADICTED, 1)).all
    assert "orders-1 at offset 7 has an ABORT marker" in incident.suspects[0].reason


def test_suspects_on_partitions_have_incidents_of_their_own() -> None:
    """The pipeline knows open transactions alone, and gives their incidents the same names."""
    stuck = StuckProducer()
    incidents = stuck.cycle(entries=(hang(),))
    later = stuck.cycle(later_ms=MINUTE_MS, entries=(hang(), hang(1, producer_id=8)))

    assert [[one.name for one in incident.suspects] for incident in later.all] == [
        ["orders-0", "orders-1"],
        ["__transaction_state-3"],
    ]
    assert len({incident.id for incident in later.all}) == 2
    assert [key.topic for key in new_suspects(NO_INCIDENTS, incidents)] == ["orders"], "no first record is read"
    assert [suspect.topic for suspect in unexplained(incidents)] == ["orders"]


def test_one_that_is_stuck_later_begins_another_incident() -> None:
    stuck = StuckProducer()
    stuck.cycle()
    stuck.cycle(later_ms=MINUTE_MS, is_over=True)
    later_ms = JOINED_SECONDS * 1000 + 2 * MINUTE_MS
    stuck.cycle(later_ms=later_ms, start_ms=BEGAN_MS + later_ms)
    incidents = stuck.cycle(later_ms=later_ms + 2 * MINUTE_MS, start_ms=BEGAN_MS + later_ms)

    assert [incident.is_over for incident in incidents.all] == [True, False]


def test_what_is_written_is_read() -> None:
    """It has no start offset."""
    incidents = StuckProducer().cycle()
    written = json.loads(json.dumps(document(incidents)))

    assert written["incidents"][0]["suspects"][0]["start_offset"] is None
    assert incidents_of(written) == incidents
