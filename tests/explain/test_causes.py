"""A cause is named where its evidence is complete, and what only looks like it is `unknown`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.daemon.explainer import in_one_line
from exporter.evaluation.verdicts import Verdict
from exporter.explain.causes import Cause, cause_of
from exporter.explain.document import explain, markdown, text
from exporter.explain.facts import Facts
from exporter.snapshot import TransactionState
from tests.explain.facts import BEGAN_MS, HERE, SECOND_MS, history, with_log, with_state

OTHER_PRODUCER = 99


def late() -> Facts:
    """Made at second 21, its transaction aborted at 24, arrived after that."""
    made = history()
    made.state(20_000, TransactionState.ONGOING, 20_000, HERE)
    made.state(24_000, TransactionState.PREPARE_ABORT, 20_000, HERE)
    made.marker(24_005, commit=False)
    made.state(24_010, TransactionState.COMPLETE_ABORT, 20_000)
    return made.facts(made.record(21_000))


def unadded(at: int = 30_000) -> Facts:
    made = history()
    return made.facts(made.record(at))


def expired() -> Facts:
    made = history()
    made.expire(100_000)
    return made.facts(made.record(200_000), Verdict.HANGING_NO_TRANSACTIONAL_ID)


def lost_marker() -> Facts:
    """The new leader has the record, and not the marker."""
    made = history()
    offset = made.record(20_000)
    made.transaction(20_000, 24_000, record=False, marker=False)
    made.leader_epoch = 4
    return made.facts(offset)


def adopted() -> Facts:
    made = history()
    offset = made.record(20_000)
    made.epoch = 1
    made.initialize(21_000)
    made.record(22_000)
    return made.facts(offset, Verdict.OPEN_WITHIN_TIMEOUT)


def by_hand() -> Facts:
    made = history()
    made.marker(20_000, coordinator_epoch=50)
    offset = made.record(21_000)
    return made.facts(offset, Verdict.STUCK_COMPLETING)


def log_lost() -> Facts:
    """The coordinator's log has the first of several committed transactions: the others are later than clocks are apart."""
    made = history()
    made.transaction(40_000, 44_000)
    facts = made.facts(made.record(50_000))
    return with_state(facts, states=facts.state.states[:4])


def foreign() -> Facts:
    made = history()
    made.leader_epoch = 5
    offset = made.record(20_000)
    made.leader_epoch = 2
    return made.facts(offset, Verdict.HANGING_NO_TRANSACTIONAL_ID)


NAMED: dict[Cause, Callable[[], Facts]] = {
    Cause.LATE_WRITE: late,
    Cause.NOT_ADDED: unadded,
    Cause.WRITTEN_AFTER_EXPIRY: expired,
    Cause.MARKER_LOST: lost_marker,
    Cause.EPOCH_ADOPTED: adopted,
    Cause.MARKER_BY_HAND: by_hand,
    Cause.COORDINATOR_LOG_LOST: log_lost,
    Cause.FOREIGN_RECORDS: foreign,
}


@pytest.mark.parametrize("cause", NAMED, ids=lambda cause: cause.value)
def test_a_cause_is_named_with_its_evidence(cause: Cause) -> None:
    """Everything that it needs was read."""
    found = cause_of(NAMED[cause]())

    assert (found.cause, found.possible, found.missing) == (cause, (), ())
    assert found.evidence


def test_every_cause_is_made_here() -> None:
    """A new one needs a scene, and what looks like it."""
    assert set(NAMED) == set(Cause) - {Cause.UNKNOWN}


def with_markers(facts: Facts, **changes: object) -> Facts:
    markers = tuple(replace(one, **changes) for one in facts.logs.own.markers)  # type: ignore[arg-type]
    return with_log(facts, markers=markers)


def with_markers_later(facts: Facts, later_ms: int) -> Facts:
    """Returns the same facts, with markers by another clock of the partition's leader."""
    markers = (replace(one, timestamp_ms=one.timestamp_ms + later_ms) for one in facts.logs.own.markers)
    return with_log(facts, markers=tuple(markers))


def healed() -> Facts:
    """A new coordinator has written the marker after all, while the logs were read."""
    facts = by_hand()
    assert facts.logs.entry is not None
    return replace(facts, logs=replace(facts.logs, entry=replace(facts.logs.entry, start_offset=-1)))


LOOKALIKES: dict[str, tuple[Callable[[], Facts], set[Cause]]] = {
    "a stuck transaction that ends": (healed, set()),
    "a late write of a client that stamps events": (
        lambda: with_log(
            late(),
            batches=tuple(
                replace(batch, first_timestamp_ms=batch.first_timestamp_ms - 3_600_000)
                if batch.offset < late().opened.start_offset
                else batch
                for batch in late().logs.own.batches
            ),
        ),
        {Cause.LATE_WRITE, Cause.NOT_ADDED},
    ),
    "a write with an older time, and too few earlier ones": (
        lambda: with_log(late(), batches=late().logs.own.batches[2:]),
        {Cause.LATE_WRITE, Cause.NOT_ADDED},
    ),
    "a write just before the end": (
        lambda: with_log(
            late(),
            batches=(
                *late().logs.own.batches[:3],
                replace(late().logs.own.batches[3], first_timestamp_ms=BEGAN_MS + 23_900),
            ),
        ),
        {Cause.LATE_WRITE, Cause.NOT_ADDED},
    ),
    "a late write into a log with gaps": (
        lambda: with_log(late(), gaps=(late().opened.start_offset,)),
        {Cause.LATE_WRITE},
    ),
    "LogAppendTime": (
        lambda: with_log(
            late(), batches=tuple(replace(batch, has_log_append_time=True) for batch in late().logs.own.batches)
        ),
        {Cause.LATE_WRITE, Cause.NOT_ADDED},
    ),
    "not added, and the coordinator's log is compacted": (
        lambda: with_state(unadded(), is_whole=False, has_gaps=True),
        {Cause.NOT_ADDED, Cause.LATE_WRITE, Cause.COORDINATOR_LOG_LOST},
    ),
    "not added, and the coordinator moved with unclean elections": (
        lambda: replace(
            with_state(unadded(), owner_leader_epoch=1),
            protection=replace(unadded().protection, state_topic_configs={}),
        ),
        {Cause.NOT_ADDED, Cause.COORDINATOR_LOG_LOST},
    ),
    "not added, and the coordinator with one replica moved": (
        lambda: replace(
            with_state(unadded(), owner_leader_epoch=1),
            protection=replace(unadded().protection, state_topic_replicas=1),
        ),
        {Cause.NOT_ADDED, Cause.COORDINATOR_LOG_LOST},
    ),
    "an old time between two transactions": (lambda: unadded(10_000), {Cause.NOT_ADDED, Cause.LATE_WRITE}),
    "a lost marker, and records of clients with an old time": (
        lambda: with_log(lost_marker(), read_from=6, oldest_by_broker_ms=-1),
        {Cause.LATE_WRITE, Cause.MARKER_LOST},
    ),
    "a late record at a leader whose clock is behind": (
        lambda: with_markers_later(late(), -3_000),
        {Cause.LATE_WRITE, Cause.MARKER_LOST},
    ),
    "a lost marker of which the log is only partly there": (
        lambda: with_log(lost_marker(), read_from=6, oldest_by_broker_ms=BEGAN_MS + 20_500),
        {Cause.LATE_WRITE, Cause.MARKER_LOST},
    ),
    "expired, and nothing shows that it was before": (
        lambda: with_log(expired(), marker_before_ms=-1, batches=expired().logs.own.batches[2:]),
        {Cause.WRITTEN_AFTER_EXPIRY, Cause.NOT_ADDED, Cause.LATE_WRITE},
    ),
    "an unknown producer": (
        lambda: with_state(unadded(), states=(), transactional_id=None, producer_ids=frozenset()),
        {Cause.COORDINATOR_LOG_LOST, Cause.FOREIGN_RECORDS},
    ),
    "an unknown producer, and compacted logs": (
        lambda: with_state(unadded(), states=(), transactional_id=None, is_whole=False),
        {Cause.COORDINATOR_LOG_LOST, Cause.FOREIGN_RECORDS, Cause.WRITTEN_AFTER_EXPIRY},
    ),
    "an unknown producer without a marker": (
        lambda: with_log(with_state(unadded(), states=(), transactional_id=None), markers=()),
        {Cause.COORDINATOR_LOG_LOST, Cause.FOREIGN_RECORDS, Cause.NOT_ADDED},
    ),
    "an ABORT that the coordinator's log lacks": (
        lambda: with_markers(log_lost(), commit=False),
        {Cause.NOT_ADDED, Cause.LATE_WRITE},
    ),
    "the log of the partition was not read": (lambda: with_log(late(), batches=(), unread="broker 1 is down"), set()),
    "stuck without a marker by hand": (lambda: with_markers_of_coordinator(by_hand()), set()),
    "overdue": (lambda: replace(unadded(), verdict=Verdict.OVERDUE_AT_COORDINATOR), set()),
}


def with_markers_of_coordinator(facts: Facts) -> Facts:
    assert facts.logs.entry is not None
    return replace(facts, logs=replace(facts.logs, entry=replace(facts.logs.entry, coordinator_epoch=0)))


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_could_be_another_cause_is_unknown(name: str) -> None:
    """A cause named wrongly is worse; what is missing, and which causes are left, is said."""
    facts, possible = LOOKALIKES[name]

    found = cause_of(facts())

    assert found.cause is Cause.UNKNOWN
    assert set(found.possible) == possible
    assert found.missing
    for why in found.missing:  # a sentence that can be read without "what is missing is"
        assert not why.startswith(("whether ", "which ", "why ", "when ", "to which "))
        assert why.count(": ") <= 1


def test_an_unknown_cause_is_said_once() -> None:
    """Then the reasons, and the causes that are left; on the page of the incident in one line."""
    facts, _ = LOOKALIKES["an unknown producer"]
    explanation = explain(facts(), bytes_read=0, bytes_limit=0, connection="")
    conclusion = explanation.conclusion
    possible = ", ".join(cause.value for cause in conclusion.possible)

    first, *rest = list(text(explanation))[3:]

    assert first == "Cause: unknown"
    assert rest[: rest.index("")] == [*(f"  - {why}" for why in conclusion.missing), f"  possible causes: {possible}"]
    assert in_one_line(conclusion) == ("unknown", f"{conclusion.missing[0]}. Possible causes: {possible}")


@pytest.mark.parametrize("later_ms", [-9_000, -3_000, 3_000, 9_000])
@pytest.mark.parametrize("name", ["late", "unadded"])
def test_no_clock_of_a_leader_makes_an_accusation(name: str, later_ms: int) -> None:
    """Brokers' clocks agree within ten seconds (docs/proof.md): what they seem to contradict proves nothing."""
    facts = {"late": late, "unadded": unadded}[name]()

    assert cause_of(with_markers_later(facts, later_ms)).cause in {cause_of(facts).cause, Cause.UNKNOWN}


def test_a_lost_log_shows_after_a_known_producer() -> None:
    """Its marker follows that of a producer of this cluster, so it was written here; before it, it may be restored."""
    facts = with_state(unadded(), states=(), transactional_id=None, producer_ids=frozenset({OTHER_PRODUCER}))

    after = cause_of(with_log(facts, ended_before={OTHER_PRODUCER: 2}))
    before = cause_of(with_log(facts, ended_before={OTHER_PRODUCER: 6}))

    assert after.cause is Cause.COORDINATOR_LOG_LOST
    assert before.cause is Cause.UNKNOWN


def test_an_abort_by_an_operator_is_no_evidence_of_a_lost_log() -> None:
    """`abort` and Kafka's tool give it the epochs of the partition: nothing shows that no coordinator wrote it."""
    facts = with_state(unadded(), states=(), transactional_id=None, producer_ids=frozenset({OTHER_PRODUCER}))
    aborted = with_markers(with_log(facts, ended_before={OTHER_PRODUCER: 2}), commit=False)

    found = cause_of(aborted)

    assert found.cause is Cause.UNKNOWN
    assert set(found.possible) == {Cause.COORDINATOR_LOG_LOST, Cause.FOREIGN_RECORDS, Cause.NOT_ADDED}


def test_an_incident_remembers_what_the_log_has_lost() -> None:
    """It knew the transactional id of the producer, and the log, complete from its beginning, does not."""
    facts = with_state(unadded(), states=(), producer_ids=frozenset())

    assert cause_of(replace(facts, known_id="app")).cause is Cause.COORDINATOR_LOG_LOST


@pytest.mark.parametrize(
    "verdict", [verdict for verdict in Verdict if not verdict.is_suspect], ids=lambda one: one.label
)
def test_what_does_not_hang_has_no_cause(verdict: Verdict) -> None:
    """The sentence says so, with the verdict."""
    made = history()
    found = cause_of(made.facts(made.record(20 * SECOND_MS), verdict))

    assert found.cause is None
    assert verdict.label in found.evidence[0]


def test_a_newer_epoch_beyond_what_was_read_is_seen_in_the_leader_s_entry() -> None:
    """While the transaction is open the entry has the epoch of the latest record."""
    facts = adopted()

    assert cause_of(with_log(facts, batches=facts.logs.own.batches[:-1])).cause is Cause.EPOCH_ADOPTED


def test_only_what_is_not_in_place_has_advice() -> None:
    """Each that is exposed says how it is switched on; a measure that is good gets no command for what is done."""
    facts = unadded()
    protection = replace(
        facts.protection,
        features={"transaction.version": 2},
        broker_configs={1: {"transaction.partition.verification.enable": "false"}},
    )
    tools = "--bootstrap-server a:1"
    explanation = explain(replace(facts, protection=protection), bytes_read=0, bytes_limit=1, connection=tools)
    as_text, as_markdown = "\n".join(text(explanation)), markdown(explanation)

    assert "exposed  transaction.partition.verification.enable: false\n           with it " in as_text
    for shown in (as_text, as_markdown):
        assert "kafka-configs.sh --bootstrap-server a:1 --alter " in shown
        assert "--add-config transaction.partition.verification.enable=true" in shown
        assert "finalized at 2" in shown
        assert "upgrade --feature transaction.version=2" not in shown


def timed_out(*, by_hand_at: int | None = None) -> Facts:
    """A suspect of an outage, which its coordinator ended; or one that lost its marker, and has one by hand."""
    made = history()
    offset = made.record(20_000)
    made.transaction(20_000, 24_000, commit=False, record=False, marker=by_hand_at is None)
    if by_hand_at is not None:
        made.marker(by_hand_at, commit=False)
    return made.facts(offset, None)


def test_what_its_coordinator_ended_did_not_hang() -> None:
    """Its marker was in the time line, below a cause that it might have been lost."""
    found = cause_of(timed_out())
    assert (found.cause, found.missing) == (None, ())
    assert "it did not hang: its coordinator ended it" in found.evidence[0]
    assert "with the ABORT marker at offset" in found.evidence[0]

    assert cause_of(replace(late(), verdict=None)).cause is Cause.LATE_WRITE, "its marker came before the record"
    assert cause_of(timed_out(by_hand_at=90_000)).cause is Cause.MARKER_LOST, "an operator's marker comes later"


def test_settings_that_are_not_visible_are_a_gap_only_where_something_is_to_be_prevented() -> None:
    """A live transaction needs none of them: the answer is complete without the right."""
    unread = "settings of __transaction_state: not authorized"
    hang = unadded()
    hang = replace(hang, protection=replace(hang.protection, unread=(unread,)))
    explained = explain(hang, bytes_read=0, bytes_limit=1, connection="")

    assert unread in explained.gaps
    assert unread not in replace(explained, measures=()).gaps
