"""The answer of `why`: who stands still behind which transaction, and as clear an answer where none is the cause."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from referencing import Registry, Resource

from exporter.cli import main
from exporter.commands.arguments import build_parser
from exporter.commands.group_position import GroupPosition
from exporter.commands.lines import connection_of
from exporter.commands.standstill import Answer, about_group, about_producer, about_topic
from exporter.commands.standstill_in_words import _UNTIL, in_words
from exporter.commands.status import ExitStatus
from exporter.commands.why import _connection_of_tools, _with_state, document
from exporter.config.loading import load
from exporter.evaluation.disk import HeldBytes
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.gaps import gaps
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, Verdict, WaitingGroup
from exporter.snapshot import NO_PRODUCER_ID, OFFSETS_TOPIC, MarkerFinding, SecondRead
from tests.commands.scenes import context_of
from tests.evaluation.builders import MINUTE_MS, NOW_MS, Entry, proof, snapshot, transaction, without_examination
from tests.evaluation.stuck import marker, stuck
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import scene

ROOT: Final = Path(__file__).parents[2]
SCHEMAS: Final = ROOT / "docs" / "schema"
ORDERS_0: Final = ("orders", 0)
BEHIND: Final = GroupPosition(committed=7, last_stable_offset=9, high_watermark=9)
AT_LSO: Final = GroupPosition(committed=100, last_stable_offset=100, high_watermark=150)


def live(**owned: Any) -> Evaluation:
    """One live transaction of 'app-1' on orders-0, two minutes old, of 15 that it may have."""
    known = {"start_ms": NOW_MS - 2 * MINUTE_MS, "timeout_ms": 15 * MINUTE_MS}
    return evaluate(
        snapshot(
            [Entry(last_timestamp_ms=NOW_MS - 90_000)], transactions=(transaction(**{**known, **owned}),), partitions=2
        ),
        Memory(),
        Policy(),
    )


FOR_OWNERS = "Next, for the owner of this id or the operators of Kafka: "


def hang() -> Evaluation:
    return evaluate(
        snapshot([Entry(producer_id=4000, second_read=SecondRead.UNCHANGED)], proof=proof()), Memory(), Policy()
    )


def test_a_group_is_told_behind_whom_it_stands_and_until_when() -> None:
    answer = about_group(
        live(),
        "readers",
        {ORDERS_0: AT_LSO, ("orders", 1): GroupPosition(committed=7, last_stable_offset=9, high_watermark=9)},
    )

    assert in_words(answer) == (
        "Group readers stands at offset 100 of orders-0, behind a transaction of producer 7, transactional id 'app-1', "
        "open from offset 100 on for 2 min 0 s (start from its coordinator; verdict open_within_timeout). Coordinator 1 "
        "has transactional id 'app-1' Ongoing at epoch 3 with orders-0 among its partitions, 2 min 0 s old, "
        "time-out 15 min 0 s.\n"
        "50 offsets wait for it. The last write of its producer is 1 min 30 s old, by the producer's clock. "
        "Its coordinator aborts it within 13 min 10 s unless its producer ends it before.\n"
        "After an abort its own records are skipped, after a commit they are read; those behind it are read then. "
        "A restart of its application with the same id ends it; terminate it only if that does not come back.\n"
        f"{FOR_OWNERS}kafka-transaction-exporter force-terminate --transactional-id app-1 --dry-run\n\n"
        "On 1 other partition no open transaction holds it; its lag of 2 offsets there, in which markers and aborted "
        "records count, has another cause. See whether its members run and move: kafka-consumer-groups.sh --describe "
        "--group readers"
    )


@pytest.mark.parametrize(
    ("sentence", "position"),
    [
        ("it has read uncommitted records", GroupPosition(committed=150, last_stable_offset=100, high_watermark=150)),
        ("it has read everything", GroupPosition(committed=100, last_stable_offset=100, high_watermark=100)),
        ("the ends are unknown", GroupPosition(committed=100, last_stable_offset=-1, high_watermark=-1)),
    ],
)
def test_a_group_that_no_transaction_holds_is_told_so(sentence: str, position: GroupPosition) -> None:
    answer = about_group(live(), "readers", {ORDERS_0: position})

    assert answer.holds == (), sentence
    lag = f"its lag of {position.lag} offsets, in which markers and aborted records count, has another cause"
    own = f"; {lag}. {LOOK}" if position.lag else "."
    assert in_words(answer) == f"No open transaction holds group readers on the partition where it has an offset{own}"


def test_a_group_with_records_to_read_learns_where_it_will_wait() -> None:
    """Its lag has two causes: what it can read, and what is behind the transaction, which it will meet."""
    before = GroupPosition(committed=98, last_stable_offset=100, high_watermark=150, next_offset=98)
    answer = replace(about_group(live(), "readers", {ORDERS_0: before}), blocked_after_ms=30_000)
    answer = replace(answer, connection_of_tools=("--bootstrap-server", "b:1"))

    assert (answer.is_held, answer.unknown) == (False, ())
    assert in_words(answer).startswith(
        "No open transaction holds group readers on the partition where it has an offset; of its lag of 52 offsets, "
        f"50 are behind what is below, and 2, in which markers and aborted records count, have another cause. {LOOK}\n\n"
        "Group readers stands at offset 98 of orders-0, and will wait from offset 100 on behind a transaction of "
        "producer 7, transactional id 'app-1', open from offset 100 on for 2 min 0 s"
    )
    assert "\n50 offsets wait for it; its lag on this partition is 52. " in in_words(answer)
    assert about_group(live(start_ms=NOW_MS - 5000), "readers", {ORDERS_0: before}).holds == ()  # a young one is usual


def test_a_group_whose_offsets_were_set_past_a_transaction_gets_nothing() -> None:
    """Kafka gives a reader of committed records none from beyond the last stable offset; one of uncommitted records all."""
    beyond = GroupPosition(committed=120, last_stable_offset=100, high_watermark=150)
    answer = about_group(live(), "readers", {ORDERS_0: beyond})

    assert not answer.is_held
    assert (
        "\nIf so, it reads from offset 120 on when that has ended, and never what is committed from 100 on and before 120,"
        in in_words(answer)
    )
    assert in_words(answer).startswith(
        "Group readers stands at offset 120 of orders-0, beyond its last stable offset 100; if it reads committed records, "
        "it gets none behind a transaction of producer 7,"
    )
    assert in_words(answer).endswith(
        "\n\nNot known: on orders-0 it is beyond the last stable offset: it reads uncommitted records, or its offsets were "
        "set past the transaction, and it gets nothing before that ends."
    )


def test_the_command_for_another_cause_has_the_connection_that_was_given() -> None:
    """It can be pasted, as every other one; nothing stands behind it. A login that Java's tools cannot read is named."""
    free = about_group(
        snapshot_without(),
        "of a team",
        {("orders", 1): GroupPosition(committed=7, last_stable_offset=9, high_watermark=9)},
    )
    given = ("--bootstrap-server", "b:1", "--command-config", "client.properties")

    command = f"kafka-consumer-groups.sh {' '.join(given)} --describe --group 'of a team'"
    own, other = (
        in_words(replace(free, connection=connection, connection_of_tools=given))
        for connection in (given, ("--config.file", "config.yaml"))
    )
    assert own.endswith(f"See whether its members run and move: {command}")
    assert other.endswith(f" (client.properties has this login as Java's clients write it): {command}")


@pytest.mark.parametrize(
    ("own", "nothing_left", "sentence"),
    [
        (9, 9, "and nothing is left for it to read: the 4 offsets of its lag are end markers and aborted records."),
        (
            7,
            9,
            "; its lag of 4 offsets, in which markers and aborted records count, is its own: it has records to read. ",
        ),
        (None, 9, "; its lag of 4 offsets, in which markers and aborted records count, has another cause. "),
    ],
)
def test_a_lag_is_said_to_be_what_the_log_has_there(own: int | None, nothing_left: int, sentence: str) -> None:
    """After an abort only markers may be left: that looks like the trouble that was just cured."""
    free = GroupPosition(committed=7, last_stable_offset=9, high_watermark=9)
    positions = {("orders", 1): replace(free, next_offset=own), ("orders", 0): replace(free, next_offset=nothing_left)}

    assert sentence in in_words(about_group(snapshot_without(), "readers", positions))


def test_what_is_left_elsewhere_is_no_lag_of_its_own_if_it_is_markers() -> None:
    """A group that is held on one partition stands at the end of another one."""
    end = GroupPosition(committed=7, last_stable_offset=9, high_watermark=9, next_offset=9)
    answer = about_group(live(), "readers", {ORDERS_0: AT_LSO, ("orders", 1): end})

    assert "other partition" not in in_words(answer)


def test_a_group_that_stands_at_a_young_transaction_is_not_before_it() -> None:
    """It is not called blocked yet; and without READ one offset before is not a wait that is known."""
    (hold,) = about_topic(live(), "orders", 0).holds
    at, before = (
        WaitingGroup(group=name, committed_offset=offset, waiting_records=50, blocked_since_ms=since)
        for name, offset, since in (("at", 100, None), ("one-before", 99, NOW_MS))
    )
    row = replace(hold.row, groups=(at, before))
    seen, unseen = (
        in_words(Answer(subject="topic orders", partitions=1, holds=(replace(hold, row=each),)))
        for each in (row, replace(row, producer_id=NO_PRODUCER_ID))
    )

    assert "Groups that wait: at, one-before (of those that this login sees)." in seen
    assert (
        "One offset before it, which is taken for an end marker and may be a record (needs READ on the topic): one-before."
        in unseen
    )
    assert "Groups that wait: at (of those that this login sees)." in unseen
    assert "Before it" not in seen + unseen


def live_and_hang(**owned: Any) -> Evaluation:
    """A live transaction at offset 100 of orders-0, a hang at 110 behind it, 150 offsets in all."""
    known = {"start_ms": NOW_MS - 2 * MINUTE_MS, "timeout_ms": 15 * MINUTE_MS}
    entries = [
        Entry(last_timestamp_ms=NOW_MS - 90_000),
        Entry(producer_id=4000, start_offset=110, last_stable_offset=100, second_read=SecondRead.UNCHANGED),
    ]
    return evaluate(
        snapshot(entries, transactions=(transaction(**{**known, **owned}),), proof=proof()), Memory(), Policy()
    )


@pytest.mark.parametrize("age_ms", [2 * MINUTE_MS, 5000])
def test_what_holds_its_readers_afterwards_is_named(age_ms: int) -> None:
    """A hang behind a live transaction: whoever waits for the first one's time-out waits in vain."""
    evaluation = live_and_hang(start_ms=NOW_MS - age_ms)
    answer = replace(about_group(evaluation, "readers", {ORDERS_0: AT_LSO}), blocked_after_ms=30_000)
    text = in_words(answer)

    assert answer.is_held
    assert (
        "\nBehind it on orders-0, from offset 110 on, they wait for a transaction of producer 4000: verdict "
        "hanging_no_transactional_id. No coordinator will end it: waiting does not help.\n"
        "Next, for the operators of Kafka: kafka-transaction-exporter abort --topic orders --partition 0 "
        "--start-offset 110 --dry-run"
    ) in text
    if age_ms == 2 * MINUTE_MS:
        assert "those behind it up to offset 110 are read then." in text
    assert [row.start_offset for hold in answer.holds for row in hold.behind] == [110]


def test_a_transaction_behind_another_one_is_not_what_its_readers_wait_for_now() -> None:
    text = in_words(about_producer(live_and_hang(), "producer id 4000", [4000]))

    assert text.startswith(
        "Readers of committed records stand at offset 100 of orders-0, and wait later behind a transaction of producer 4000"
    )
    assert "\n40 offsets are behind its start. No coordinator will end it" in text
    assert "No group is seen to wait" not in text


def test_a_pending_offset_stops_its_own_group_only() -> None:
    """Others that have their offsets on the same partition of `__consumer_offsets` read them as before."""
    home = (OFFSETS_TOPIC, 0)
    owner = transaction(start_ms=NOW_MS - 2 * MINUTE_MS, partitions=frozenset({home}))
    taken = snapshot([Entry()], transactions=(owner,), partitions=1)
    taken = replace(taken, partitions=replace(taken.partitions, topics=(OFFSETS_TOPIC,)))
    evaluation = evaluate(taken, Memory(), Policy())

    own = in_words(about_group(evaluation, "readers", {}, is_pending=True))
    of_id = in_words(about_producer(evaluation, "transactional id 'app-1'", [7]))

    assert own.startswith(
        f"Group readers has an offset pending on {OFFSETS_TOPIC}-0, which no consumer of it can read,"
    )
    assert "No group is seen to wait" not in own
    assert of_id.startswith(f"Consumers of a group with an offset pending on {OFFSETS_TOPIC}-0 cannot start behind a")
    assert "one that commits for the first time is seen by why --group alone." in of_id
    for text in (own, of_id):
        assert (
            "After an abort the group's former offsets count (without one, auto.offset.reset), after a commit" in text
        )


@pytest.mark.parametrize("committed", [98, 120], ids=["before", "beyond"])
def test_a_young_transaction_that_a_group_will_meet_is_not_denied(committed: int) -> None:
    """It is usual, and nobody is called; a minute later the answer names it."""
    position = GroupPosition(committed=committed, last_stable_offset=100, high_watermark=150, next_offset=committed)
    answer = about_group(live(start_ms=NOW_MS - 5000), "readers", {ORDERS_0: position})

    assert (answer.holds, answer.unknown, answer.may_be_young) == ((), (), True)
    assert "or it waits for a transaction that has just begun." in in_words(replace(answer, blocked_after_ms=30_000))


def test_a_young_transaction_behind_a_hang_ends_what_is_read_then() -> None:
    """It is not named, as it soon ends; what is behind it is not read yet."""
    entries = [
        Entry(producer_id=4000, second_read=SecondRead.UNCHANGED),
        Entry(start_offset=110, last_stable_offset=100, last_timestamp_ms=NOW_MS),
    ]
    young = transaction(start_ms=NOW_MS - 5000, timeout_ms=15 * MINUTE_MS)
    evaluation = evaluate(snapshot(entries, transactions=(young,), proof=proof()), Memory(), Policy())
    (hold,) = about_group(evaluation, "readers", {ORDERS_0: AT_LSO}).holds

    assert hold.behind == ()
    assert "and those behind it up to offset 110 are read." in in_words(
        about_group(evaluation, "readers", {ORDERS_0: AT_LSO})
    )


def test_a_hang_of_pending_offsets_has_their_effect() -> None:
    """The group goes on from its former offsets, and others are not affected; no record is skipped."""
    taken = hang().snapshot
    taken = replace(taken, partitions=replace(taken.partitions, topics=(OFFSETS_TOPIC,)))
    text = in_words(about_topic(evaluate(taken, Memory(), Policy()), OFFSETS_TOPIC, 0))

    assert "After an abort the group's former offsets count" in text
    assert "the producer's next commit there would be a commit of these offsets." in text
    assert "its own records are skipped" not in text


def test_an_unproved_transaction_behind_another_makes_the_answer_incomplete() -> None:
    """Its reason is said, as where it is the first one."""
    evaluation = replace_hang_by_unproved()
    answer = about_group(evaluation, "readers", {ORDERS_0: AT_LSO})

    assert answer.is_unproved
    assert "they wait for a transaction of producer 4000: verdict inconclusive. Unverified: " in in_words(answer)


def replace_hang_by_unproved() -> Evaluation:
    """The transactions of `live_and_hang`, without a proof of the second one."""
    taken = replace(live_and_hang().snapshot, proof=None)
    return evaluate(taken, Memory(), Policy())


def test_hidden_topics_are_named_beside_whatever_else_is_not_known() -> None:
    """The cause may be on a topic that this login does not see."""
    unread = about_group(live(), "readers", {}, hides_topics=True, unread_positions=["its offsets were not read"])

    assert "if the group reads one, it may stand still there, too" in in_words(unread)


def test_an_id_may_have_more_partitions_than_this_login_sees() -> None:
    answer = replace(about_producer(live(), "transactional id 'app-1'", [7]), hides_topics=True)

    assert in_words(answer).endswith(
        "\n\nTopics without DESCRIBE for this login are hidden: something of it may be open, or hang, there."
    )


def test_whether_a_producer_can_start_again_is_not_known_where_its_markers_cannot_be_looked_for() -> None:
    """A coordinator that completes for ever looks as one that has just decided."""
    nothing = about_producer(live(), "transactional id 'app-2'", [8])
    prepared = _with_state(nothing, transaction("PrepareCommit", transactional_id="app-2", producer_id=8))
    idle = _with_state(nothing, transaction("Empty", transactional_id="app-2", producer_id=8))

    (sentence,) = prepared.unknown
    assert sentence.startswith("its coordinator has it PrepareCommit; whether that ends: run this again in a minute")
    assert "CONCURRENT_TRANSACTIONS" in in_words(prepared)
    earlier = ": nothing of an earlier producer id was looked for."
    assert (idle.unknown, in_words(idle).endswith(earlier)) == ((), True)


def test_an_id_without_open_transactions_may_hang_on_hidden_topics() -> None:
    """Its coordinator has it Empty then, as where all is well."""
    answer = replace(about_producer(live(), "transactional id 'app-2'", [8]), hides_topics=True)

    assert in_words(answer).endswith(
        "\n\nTopics without DESCRIBE for this login are hidden: something of it may be open, or hang, there."
    )


def test_where_topics_are_hidden_no_is_said_of_what_is_seen() -> None:
    """Kafka leaves out the offsets on topics without DESCRIBE, without a word."""
    elsewhere = {("orders", 1): GroupPosition(committed=7, last_stable_offset=9, high_watermark=9)}
    nowhere = in_words(about_group(live(), "readers", {}, hides_topics=True))

    assert in_words(about_group(snapshot_without(), "readers", elsewhere, hides_topics=True)).startswith(
        "No open transaction holds group readers on the partition where this login sees an offset of it; topics without "
        "DESCRIBE are hidden; its lag of 2 offsets"
    )
    assert "it has committed no offset to Kafka that this login sees (topics without DESCRIBE are hidden)" in nowhere
    held = replace(about_group(live(), "readers", {ORDERS_0: AT_LSO}, hides_topics=True), blocked_after_ms=30_000)
    assert in_words(held).endswith("are hidden: if the group reads one, it may stand still there, too.")
    young = about_group(live(start_ms=NOW_MS - 5000), "readers", {ORDERS_0: AT_LSO}, hides_topics=True)
    assert in_words(replace(young, blocked_after_ms=30_000)).startswith("Nothing unusual in what this login sees: ")
    first = about_group(live(), "readers", {}, hides_topics=True, hides_offsets=True)
    assert first.unknown[-1].endswith("is seen with DESCRIBE on __consumer_offsets alone")


def test_by_its_offset_alone_a_transaction_may_be_of_another_one() -> None:
    """Without READ the active transactions that may own it are known, and whether one of them does is not."""
    answer = about_topic(live(), "orders", 0)
    (hold,) = answer.holds
    unseen = replace(hold, row=replace(hold.row, producer_id=NO_PRODUCER_ID, transactional_id=None))
    text = in_words(replace(answer, holds=(unseen,)))

    assert "open from offset 100 on for at most 2 min 0 s, if its owner is alive (verdict open_within_timeout)." in text
    assert "If one of these owns it: " in text
    assert "it is held by another one, which may hang: do not restart its application." in text
    assert "A restart of its application with the same id ends it" not in text


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.HANGING_NOT_IN_TRANSACTION])
def test_an_id_that_may_hang_elsewhere_is_not_to_be_restarted(verdict: Verdict) -> None:
    """A restart ends its silent transaction, and the next commit there makes the records of the hang visible."""
    answer = about_topic(live(), "orders", 0)
    (hold,) = answer.holds
    elsewhere = replace(hold, row=replace(hold.row, topic="payments", verdict=verdict))
    text = in_words(replace(answer, holds=(elsewhere, hold)))

    assert "Do not restart its application: it also hangs, or may hang, on payments-0, and its next commit" in text
    assert "A restart of its application with the same id ends it" not in text


def snapshot_without() -> Evaluation:
    return evaluate(snapshot([], partitions=2), Memory(), Policy())


LOOK: Final = (
    "See whether its members run and move: kafka-consumer-groups.sh --bootstrap-server b:1 --describe --group readers"
)
UNREAD: Final = GroupPosition(committed=60, last_stable_offset=100, high_watermark=150)


def test_what_lies_before_a_transaction_and_was_not_read_may_be_nothing_but_markers() -> None:
    """A login with DESCRIBE alone gets no false no where a group may stand before aborted records."""
    answer = about_group(live(), "readers", {ORDERS_0: UNREAD})

    assert (answer.holds, answer.is_held) == ((), False)
    assert in_words(answer) == (
        "No open transaction that could be examined holds group readers; whether one does is not known.\n\n"
        "Not known: on orders-0 it stands before an open transaction, and what lies between was not read (needs READ on "
        "the topic): if that is end markers and aborted records only, the transaction holds it."
    )
    assert about_group(live(), "readers", {ORDERS_0: replace(UNREAD, next_offset=99)}).unknown == ()
    assert about_group(live(), "readers", {ORDERS_0: replace(UNREAD, next_offset=100)}).is_held
    young = about_group(live(start_ms=NOW_MS - 5000), "readers", {ORDERS_0: UNREAD})
    assert (young.unknown, young.is_held) == ((), False)


def test_an_offset_that_is_taken_for_an_end_marker_makes_no_full_answer() -> None:
    """A login with DESCRIBE alone cannot see whether it is a record, which the group reads first."""
    assumed = GroupPosition(committed=99, last_stable_offset=100, high_watermark=150)
    answer = about_group(live(), "readers", {ORDERS_0: assumed})

    assert answer.is_held
    (sentence,) = answer.unknown
    assert sentence == (
        "on orders-0 it stands one offset before the transaction, and what is there was not read (needs READ on the "
        "topic): it is taken for an end marker; if it is a record, the group can read that first"
    )
    assert about_group(live(), "readers", {ORDERS_0: replace(assumed, next_offset=100)}).unknown == ()
    assert about_group(live(), "readers", {ORDERS_0: AT_LSO}).unknown == ()


def test_a_partition_on_which_the_group_has_no_offset_may_hold_it() -> None:
    """A consumer that commits what it has read only has none on a partition at whose first record it stands."""
    elsewhere = {("orders", 1): GroupPosition(committed=9, last_stable_offset=9, high_watermark=9)}

    (sentence,) = about_group(live(), "readers", elsewhere).unknown
    assert sentence.startswith("on orders-0 it has no committed offset, and a transaction is open there: whether")
    assert about_group(live(start_ms=NOW_MS - 5000), "readers", elsewhere).unknown == ()
    other = {("payments", 0): GroupPosition(committed=9, last_stable_offset=9, high_watermark=9)}
    assert not any("orders" in sentence for sentence in about_group(live(), "readers", other).unknown)


def test_a_young_transaction_holds_nobody_yet() -> None:
    """Every busy group stands in one now and then: nobody is to terminate its owner."""
    answer = replace(about_group(live(start_ms=NOW_MS - 5000), "readers", {ORDERS_0: AT_LSO}), blocked_after_ms=30_000)
    lasting = replace(about_group(live(), "readers", {ORDERS_0: AT_LSO}), blocked_after_ms=30_000)

    assert (answer.is_held, lasting.is_held) == (False, True)
    assert in_words(answer) == (
        "Nothing unusual: the transaction is young. If it is still open in a minute, run this again.\n\n"
        "Group readers stands at offset 100 of orders-0, behind a transaction of producer 7, transactional id 'app-1', "
        "open from offset 100 on for 5 s."
    )
    partly = replace(answer, unknown=("orders-1 could not be read",))
    assert in_words(partly).startswith("Nothing unusual in what could be read: the transaction is young.")


def test_a_hang_whose_first_records_are_deleted_holds_its_readers() -> None:
    """The last stable offset is beyond its start then; a live one that looks so has ended between two reads."""
    entry = Entry(start_offset=90, last_stable_offset=100, high_watermark=150, second_read=SecondRead.UNCHANGED)
    hang = evaluate(snapshot([entry], proof=proof()), Memory(), Policy())
    alive = evaluate(snapshot([entry], transactions=(transaction(),)), Memory(), Policy())

    assert [hold.row.start_offset for hold in about_group(hang, "readers", {ORDERS_0: AT_LSO}).holds] == [90]
    assert [hold.row.verdict.is_hanging for hold in about_topic(hang, "orders", None).holds] == [True]
    assert about_topic(alive, "orders", None).holds == ()


def test_a_group_without_offsets_cannot_be_seen() -> None:
    assert in_words(about_group(live(), "flink", {})) == (
        "No open transaction that could be examined holds group flink; whether one does is not known.\n\n"
        "Not known: it has committed no offset to Kafka, so where it stands cannot be seen; why --topic TOPIC says "
        "what holds the readers of a topic."
    )


def test_what_was_not_read_is_said_and_never_taken_for_no() -> None:
    answer = about_group(live(), "readers", {("payments", 3): AT_LSO})

    assert in_words(answer) == (
        "No open transaction that could be examined holds group readers; whether one does is not known.\n\n"
        "Not known: payments-3 could not be read, or is not visible."
    )


def test_a_partition_without_the_group_is_no_gap_of_its_answer() -> None:
    """An owner who may read one topic cannot act on the gaps of the others."""
    taken = snapshot([Entry()], partitions=2, unread=(1,))
    answer = about_group(evaluate(taken, Memory(), Policy()), "readers", {ORDERS_0: AT_LSO})

    assert gaps(taken) == ("1 partition is unread (timed_out), the first is orders-1",)
    assert gaps(taken, of=answer.names) == ()
    assert gaps(taken, of=about_topic(evaluate(taken, Memory(), Policy()), "orders", None).names) == gaps(taken)


def test_a_hold_that_is_not_proved_is_not_a_full_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 4 in each form of the question, as `find-hanging` has it: whether the transaction ends is not known."""
    model = scene()
    model.may_describe_ids = False
    with FakeCluster(model, nodes=2) as cluster:
        asked = ["why", "--bootstrap-server", f"{HOST}:{cluster.ports[1]}", "--topic", "hung"]
        assert main(asked) == ExitStatus.INCOMPLETE

    printed = capsys.readouterr()
    assert "verdict inconclusive" in printed.out
    assert "incomplete: " in printed.err


def test_a_transaction_that_was_not_examined_is_never_taken_for_none() -> None:
    """One beyond the limit, or one that may have begun since another one was seen on the partition."""
    another = evaluate(snapshot([Entry(start_offset=90)], transactions=(transaction(),)), Memory(), Policy())
    held = about_group(another, "readers", {ORDERS_0: AT_LSO})
    not_examined = about_topic(evaluate(without_examination(live().snapshot), Memory(), Policy()), "orders", None)

    assert held.has_moved
    assert held.unknown == (
        "something open holds it on orders-0, which was not examined or has begun since: run it again",
    )
    assert not_examined.unknown == ("orders-0 has transactions that were not examined (scan.transactions_limit)",)


@pytest.mark.parametrize("committed", [500, 499, 300])
def test_a_transaction_that_has_ended_since_is_never_named(committed: int) -> None:
    """Positions are read after the cycle: the last stable offset is beyond a live transaction that was open in it."""
    later = GroupPosition(committed=committed, last_stable_offset=500, high_watermark=510)
    answer = about_group(live(), "readers", {ORDERS_0: later})

    assert (answer.holds, answer.is_held) == ((), False)
    assert answer.has_moved is (committed >= 499)


def test_where_nothing_was_open_a_transaction_has_just_begun() -> None:
    """The group's position is read after the partitions: on a busy one it then stands at the next transaction."""
    nothing_open = evaluate(snapshot([], partitions=1), Memory(), Policy())
    answer = about_group(nothing_open, "readers", {ORDERS_0: AT_LSO})

    assert (answer.unknown, answer.has_moved, answer.is_held) == ((), False, False)
    assert in_words(answer) == (
        "Group readers stands at a transaction that has just begun, which is normal; no other open transaction holds it."
    )


def test_a_hang_has_its_own_way_out() -> None:
    text = in_words(about_topic(hang(), "orders", 0))

    assert text.startswith(
        "Readers of committed records stand at offset 100 of orders-0, behind a transaction of producer 4000 "
    )
    assert "No coordinator will end it: waiting does not help." in text
    assert "Do not restart its application to end it" in text  # its next commit adopts the records
    assert text.endswith(
        "Next, for the operators of Kafka: kafka-transaction-exporter abort "
        "--topic orders --partition 0 --start-offset 100 --dry-run"
    )


def test_the_owner_of_an_unproved_transaction_learns_who_completes_the_proof() -> None:
    """Reading it again would say the same: the next step is the operators', who have the grants and the runbook."""
    unproved = evaluate(snapshot([Entry(producer_id=4000, second_read=SecondRead.UNCHANGED)]), Memory(), Policy())
    text = in_words(about_group(unproved, "readers", {ORDERS_0: AT_LSO}))

    assert "verdict inconclusive" in text
    assert (
        "Whether it will end is not known: send this to the operators of Kafka, who complete the proof by the runbook "
        "KafkaTransactionInconclusive, which the exporter has at /runbooks/."
    ) in text
    assert (ROOT / "alerts" / "runbooks" / "KafkaTransactionInconclusive.md").exists()
    assert text.endswith(
        "Next, for the operators of Kafka: kafka-transaction-exporter find-hanging --topic orders --partition 0 --all"
    )


def completing_stuck(finding: MarkerFinding, *, is_open: bool) -> str:
    """The answer about a producer whose coordinator has decided to commit and waits for one marker."""
    entries = [Entry(producer_id=7)] if is_open else []
    evaluation = evaluate(
        snapshot(entries, transactions=(transaction("PrepareCommit", start_ms=NOW_MS - 5000),), partitions=1),
        Memory(),
        Policy(),
    )
    answer = about_producer(evaluation, "producer id 7", [7])
    return in_words(replace(answer, stuck=(stuck(marker(finding)),), blocked_after_ms=30_000))


def test_a_transaction_whose_marker_is_refused_is_neither_young_nor_being_written() -> None:
    """It has one account, and the plan of the marker that its coordinator has decided."""
    text = completing_stuck(MarkerFinding.MISSING, is_open=True)

    assert "orders-0 at offset 7 is still open." in text
    assert "is writing the marker" not in text
    assert "young" not in text
    assert text.endswith(
        "Next, for the operators of Kafka: kafka-transaction-exporter complete --topic orders --partition 0 "
        "--start-offset 100 --dry-run"
    )
    assert text.count("Next") == 1


def test_a_hang_of_the_same_producer_keeps_its_own_plan() -> None:
    """An older epoch can hang while a newer transaction of the producer is stuck: `complete` would refuse it."""
    answer = replace(about_topic(hang(), "orders", 0), stuck=(replace(stuck(marker()), producer_id=4000),))
    of_hang, of_stuck = in_words(answer).split("\n\n")

    assert of_hang.endswith("abort --topic orders --partition 0 --start-offset 100 --dry-run")
    assert "complete --topic" not in of_stuck


@pytest.mark.parametrize(
    ("finding", "runbook"),
    [
        (MarkerFinding.AS_DECIDED, "KafkaTransactionProducerCannotStart"),
        (MarkerFinding.CONTRADICTED, "KafkaTransactionOutcomeContradicted"),
    ],
)
def test_a_producer_that_cannot_start_has_a_next_step(finding: MarkerFinding, runbook: str) -> None:
    """The runbook is that of the alert: a start does not mend a damaged outcome."""
    text = completing_stuck(finding, is_open=False)

    assert text.endswith(f"have the next steps in the runbook {runbook}, which the exporter has at /runbooks/.")
    assert (ROOT / "alerts" / "runbooks" / f"{runbook}.md").exists()


def test_of_a_producer_nothing_is_known_where_producers_are_not_visible() -> None:
    """With DESCRIBE alone the open transaction may be the one that is asked for."""
    unseen = evaluate(snapshot([Entry(producer_id=-1, producer_epoch=-1)]), Memory(), Policy())
    answer = about_producer(unseen, "transactional id 'app-1'", [7])
    answer = replace(answer, aside="Its coordinator has it Ongoing at epoch 3.")

    assert in_words(answer) == (
        "No open transaction that could be examined holds transactional id 'app-1'; whether one does is not known. "
        "Its coordinator has it Ongoing at epoch 3.\n\n"
        "Not known: on orders-0 a transaction is open whose producer is not visible (needs READ on the topic)."
    )


def test_the_offsets_that_wait_are_those_behind_the_transaction() -> None:
    before = GroupPosition(committed=60, last_stable_offset=100, high_watermark=150, next_offset=100)

    assert "\n50 offsets wait for it; its lag on this partition is 90. The last" in in_words(
        about_group(live(), "readers", {ORDERS_0: before})
    )


def test_what_may_wait_for_a_young_transaction_is_not_denied() -> None:
    young = live(start_ms=NOW_MS - 5000)
    answer = replace(about_group(young, "readers", {ORDERS_0: UNREAD}), blocked_after_ms=30_000)

    assert in_words(answer).startswith(
        "No transaction that is open for 30 s or longer holds group readers on the partition where it has an offset; its "
        "lag of 90 offsets, in which markers and aborted records count, has another cause, or it waits for a "
        "transaction that has just begun."
    )


def test_bytes_on_disk_are_said_where_they_are_known() -> None:
    held = HeldBytes(bytes=1_200_000_000, bytes_per_second=None, log_dir_full_ms=None)
    text = in_words(about_topic(replace(live(), held={ORDERS_0: held}), "orders", 0))

    assert (
        "About 1.2 GB of the partition's log can be neither compacted nor tiered until it ends. The last write of its"
        in text
    )
    assert "compacted" not in in_words(about_topic(live(), "orders", 0))


def test_a_topic_without_a_transaction() -> None:
    assert in_words(about_topic(live(), "orders", 1)) == "No open transaction holds orders-1."


def test_a_producer_is_told_what_it_has_open_or_what_its_coordinator_has() -> None:
    held = about_producer(live(), "transactional id 'app-1'", [7])
    nothing = about_producer(live(), "transactional id 'app-2'", [8])
    nothing = replace(nothing, aside="Its coordinator, broker 1, has it Empty at epoch 3.")

    assert in_words(held).startswith(
        "On orders-0 everybody who reads committed records waits behind a transaction of producer 7"
    )
    assert in_words(nothing) == (
        "No transaction of transactional id 'app-2' is open on any partition that was read. "
        "Its coordinator, broker 1, has it Empty at epoch 3."
    )


def test_an_id_that_a_shell_would_read_is_quoted() -> None:
    text = in_words(about_topic(live(transactional_id="a b; reboot"), "orders", None))
    command = "kafka-transaction-exporter force-terminate --transactional-id 'a b; reboot' --dry-run"
    assert text.endswith(f"{FOR_OWNERS}{command}")


@pytest.mark.parametrize(
    "answer",
    [
        about_group(live(), "readers", {ORDERS_0: AT_LSO}),
        about_group(live(), "readers", {}),
        about_topic(hang(), "orders", None),
        about_group(live_and_hang(), "readers", {ORDERS_0: AT_LSO}),
        about_group(live_and_hang(), "readers", {ORDERS_0: replace(AT_LSO, committed=120)}),
    ],
    ids=["held", "nothing", "hang", "two", "beyond"],
)
def test_json_matches_its_schema(answer: Answer) -> None:
    schema = json.loads((SCHEMAS / "why.schema.json").read_text())
    table = json.loads((SCHEMAS / "find-hanging.schema.json").read_text())
    registry: Registry[Any] = Registry().with_resource("find-hanging.schema.json", Resource.from_contents(table))
    validator = jsonschema.Draft202012Validator({**schema, "additionalProperties": False}, registry=registry)

    printed = json.loads(json.dumps(document(live(), answer)))

    assert [error.message for error in validator.iter_errors(printed)] == []
    assert schema["required"] == list(schema["properties"]) == list(printed)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["why"], "one of the arguments --group --topic --transactional-id --producer-id is required"),
        (["why", "--group", "g", "--topic", "t"], "argument --topic: not allowed with argument --group"),
    ],
)
def test_one_question_at_a_time(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_partition_needs_its_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--group", "g", "--partition", "1", "--bootstrap-server", "127.0.0.1:1"]) == 2
    assert "--partition needs --topic" in capsys.readouterr().err


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_says_how_it_ends(verdict: Verdict) -> None:
    """A new verdict has its sentence here, too."""
    assert (verdict in _UNTIL) == (verdict is not Verdict.OPEN_WITHIN_TIMEOUT)


def test_the_next_command_finds_the_cluster_as_this_one_did() -> None:
    """It is pasted where this one was, so it has the same options; operators have a login of their own."""
    words = [
        "why",
        "--group",
        "g",
        "--command-config",
        "my client.properties",
        "--clusters",
        "c.yaml",
        "--cluster",
        "north",
    ]
    answer = replace(about_topic(hang(), "orders", 0), connection=connection_of(build_parser().parse_args(words)))

    assert in_words(answer).endswith(
        "--start-offset 100 --dry-run --command-config client.properties --clusters c.yaml --cluster north"
    )

    own = replace(about_topic(live(), "orders", 0), connection=answer.connection)
    assert "--command-config 'my client.properties' --clusters c.yaml" in in_words(own)


def test_the_next_command_has_every_option_of_the_connection() -> None:
    """A setting of a broker's connection is needed again; other settings are not."""
    words = ["why", "--group", "g", "--kafka.security.protocol", "SSL", "--kafka.ssl.ca.location", "a b.pem"]
    options = build_parser().parse_args([*words, "--scan.interval", "1m", "--bootstrap-server", "a:1"])

    assert connection_of(options) == (
        *("--bootstrap-server", "a:1", "--kafka.security.protocol", "SSL"),
        *("--kafka.ssl.ca.location", "a b.pem"),
    )


@pytest.mark.parametrize("id_", ["a\nNext: rm -rf .", "app\x07-1"])
def test_a_name_that_cannot_be_shown_makes_no_command(id_: str) -> None:
    """Any client chooses an id: a line end would begin a false command, and without a bell it is another id."""
    words = in_words(about_topic(live(transactional_id=id_), "orders", 0))
    of_group = in_words(about_group(evaluate(snapshot(), Memory(), Policy()), id_, {("orders", 0): BEHIND}))

    for text in (words, of_group):
        assert text.replace("\n", "").isprintable()
        assert "no command can be pasted: a name in it has characters that a terminal does not show" in text
        assert not [line for line in text.split("\n") if line.startswith("Next: rm")]


@pytest.mark.parametrize(("where", "what"), [((), "topic hungs"), (("--partition", "9"), "hungs-9")])
def test_a_topic_that_is_not_visible_is_named_with_the_right_it_needs(
    where: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped name and a missing right look the same: both are said."""
    with FakeCluster(scene(), nodes=2) as cluster:
        asked = ["why", "--bootstrap-server", f"{HOST}:{cluster.ports[1]}", "--topic", "hungs", *where]
        assert main(asked) == ExitStatus.COULD_NOT_RUN

    words = f"{what} does not exist, or is not visible (needs DESCRIBE on the topic): did you mean hung?"
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["why", "find-hanging", "abort", "explain"])
def test_a_partition_beyond_those_of_its_topic_is_no_missing_right(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is visible: a right would be looked for in vain."""
    monkeypatch.setenv("HOME", str(tmp_path))
    more = {"abort": ("--start-offset", "1", "--dry-run"), "explain": ("--start-offset", "1")}.get(command, ())
    with FakeCluster(scene(), nodes=2) as cluster:
        asked = [
            command,
            "--bootstrap-server",
            f"{HOST}:{cluster.ports[1]}",
            "--topic",
            "hung",
            "--partition",
            "9",
            *more,
        ]
        assert main(asked) == ExitStatus.COULD_NOT_RUN

    words = " ".join(capsys.readouterr().err.split())
    assert "partition 9 of hung does not exist; the topic has 2" in words
    assert "DESCRIBE" not in words


@pytest.mark.parametrize(
    ("name", "text", "file"),
    [
        ("client.properties", "sasl.jaas.config=x", "client.properties"),
        ("client.properties", "sasl.username=u", "java.properties"),
        ("my.properties", "sasl.username=u", "client.properties"),
        (None, "", "client.properties"),
    ],
)
def test_java_s_tools_get_a_file_that_they_can_use(name: str | None, text: str, file: str, tmp_path: Path) -> None:
    """An application's own file may be one of librdkafka, under the very name that the documents use."""
    given = [] if name is None else ["--command-config", str(tmp_path / name)]
    if name is not None:
        (tmp_path / name).write_text(text)
    options = context_of(tmp_path, ["why", *given, "--group", "g"]).options
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    login |= {"kafka.sasl.username": "u", "kafka.sasl.password": "p", "kafka.bootstrap.servers": "b:1"}
    kafka = load(file=None, environment={}, flags=login).settings.kafka
    *_, named = _connection_of_tools(options, kafka)

    assert Path(named).name == file
    assert (named == str(tmp_path / (name or ""))) is ("jaas" in text)
