"""More transactions are open than a cycle examines: the longest idle are examined, the others counted and timed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from exporter.cli import main
from exporter.commands.status import ExitStatus
from exporter.evaluation.evaluate import evaluate
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import as_sentence
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, InconclusiveReason, Policy, StartSource, Verdict
from exporter.incidents.follow import follow
from exporter.incidents.incident import NO_INCIDENTS
from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.collect.collector import CollectOptions, Collector
from exporter.kafka.leadership.metadata_source import CHECKED_EVERY_CYCLES
from exporter.publication.metrics.coverage import inconclusive_by_reason
from exporter.publication.metrics.model import LimitedEvaluation
from exporter.publication.metrics.transactions import open_by_verdict, suspects_hidden
from exporter.publication.page.summary import summarize
from exporter.publication.publication import PublishOptions
from exporter.snapshot import NULL, STATE_TOPIC, TransactionKey, TransactionKeys
from tests.kafka.counting import CALLS_MAX, calls
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model, Partition, Producer, Transaction
from tests.kafka.loopback import HOST
from tests.kafka.scene import collector_of
from tests.publication.builders import published, status

LIMIT = 4
NOW_MS = 1_800_000_000_000
OLDEST_MS = 1_700_000_000_000


@contextmanager
def limited(cluster: FakeCluster, limit: int = LIMIT) -> Iterator[Collector]:
    """A collector that examines so many."""
    collector = Collector(
        Connections({}, client_id="limited"),
        [Address(HOST, port) for port in cluster.ports.values()],
        CollectOptions(deadline_s=60, request_timeout_s=20, transactions_limit=limit),
    )
    try:
        yield collector
    finally:
        collector.close()


def many(count: int, *, listed: bool = False) -> Model:
    """`count` open on one partition, of producers 1, 2, ...: the later ones are idle for longer."""
    producers = [Producer(i, i, last_timestamp_ms=OLDEST_MS - i) for i in range(1, count + 1)]
    model = Model(topics={STATE_TOPIC: [Partition(1)], "a": [Partition(1)], "t": [Partition(1, producers=producers)]})
    if listed:
        model.transactions = {
            f"app-{i}": Transaction(i, start_ms=OLDEST_MS, partitions={("t", 0)}) for i in range(1, count + 1)
        }
    return model


def aside(memory: Memory) -> list[int]:
    """The producers of remembered transactions that were not examined."""
    producer_ids: list[int] = memory.seen.producer_id[memory.transactions.examined_count :].tolist()
    return producer_ids


def cycle(collector: Collector, memory: Memory) -> Evaluation:
    snapshot = collector.collect(seen_before=memory.seen)
    return evaluate(snapshot, memory, Policy())


def test_the_longest_idle_are_proved_and_the_others_are_counted() -> None:
    """Gauges of the partition include all ten; six are inconclusive because they were not examined."""
    with FakeCluster(many(10)) as cluster, limited(cluster) as collector:
        evaluation = cycle(collector, Memory())

    assert sorted(row.producer_id for row in evaluation.suspects) == [7, 8, 9, 10]
    assert {row.verdict for row in evaluation.suspects} == {Verdict.HANGING_NO_TRANSACTIONAL_ID}
    assert evaluation.partitions.open_transactions.tolist()[-1] == 10
    counts = {sample.labels[0]: sample.value for sample in open_by_verdict(evaluation)}
    assert (counts["hanging_no_transactional_id"], counts["inconclusive"], sum(counts.values())) == (4, 6, 10)
    reasons = {sample.labels[0]: sample.value for sample in inconclusive_by_reason(evaluation)}
    assert reasons[InconclusiveReason.NOT_EXAMINED.value] == sum(reasons.values()) == 6


def test_what_was_not_examined_is_reported_wherever_an_operator_looks() -> None:
    """Coverage is incomplete, log and page say how many and what to raise, and the hidden suspects count them."""
    with FakeCluster(many(10)) as cluster, limited(cluster) as collector:
        evaluation = cycle(collector, Memory())

    sentence = "not examined: 6 of 10 open transactions; raise scan.transactions_limit"
    assert not evaluation.snapshot.is_complete
    assert gaps(evaluation.snapshot) == (sentence,)
    assert as_sentence(sentence) in summarize(evaluation, status()).notes
    publication = published(evaluation, options=PublishOptions(suspects_limit=3))
    assert suspects_hidden(LimitedEvaluation(evaluation, publication)) == 7


def test_incidents_go_on_beyond_the_limit() -> None:
    """An incident follows transactions whether they are examined or not."""
    with FakeCluster(many(LIMIT)) as cluster, limited(cluster) as collector:
        few = evaluate(collector.collect(), Memory(), Policy())
    with FakeCluster(many(LIMIT + 2)) as cluster, limited(cluster) as collector:
        more = evaluate(collector.collect(), few.memory, Policy())
    begun = follow(NO_INCIDENTS, few)
    followed = follow(begun, more)

    assert {suspect.key.producer_id for incident in begun.all for suspect in incident.suspects} == {1, 2, 3, 4}
    open_ids = {s.key.producer_id for incident in followed.all for s in incident.suspects if s.ended_at_ms is None}
    assert {3, 4, 5, 6} <= open_ids
    assert len(list(more.examined_verdicts())) == LIMIT < more.open_count


def test_find_hanging_says_what_it_did_not_examine(capsys: pytest.CaptureFixture[str]) -> None:
    """Beyond the limit, with its whole wait for what completes."""
    with FakeCluster(many(LIMIT)) as cluster:
        where = f"--bootstrap-server={HOST}:{cluster.ports[1]}"
        assert main(["find-hanging", where, "--scan.transactions-limit=2", "--format=json"]) == ExitStatus.INCOMPLETE
    printed = capsys.readouterr()

    assert "not examined: 2 of 4 open transactions" in printed.err
    assert len(json.loads(printed.out)["transactions"]) == 2


def test_up_to_the_limit_nothing_is_set_aside() -> None:
    """Ten of ten are examined."""
    with FakeCluster(many(10)) as cluster, limited(cluster, 10) as collector:
        evaluation = cycle(collector, Memory())

    assert len(evaluation.suspects) == evaluation.suspect_count == 10
    assert gaps(evaluation.snapshot) == ()


def test_what_began_just_now_is_not_suspect_for_want_of_examination() -> None:
    """Listed as active and seen for the first time, as without a limit. In the next cycle they need a description."""
    with FakeCluster(many(10, listed=True)) as cluster, limited(cluster) as collector:
        first = cycle(collector, Memory())
        second = cycle(collector, first.memory)

    assert first.verdict_counts()[Verdict.OPEN_WITHIN_TIMEOUT] == 10
    assert first.snapshot.is_complete
    assert second.not_examined_count == 6
    assert not second.snapshot.is_complete


def test_first_seen_times_are_of_all_whether_they_are_examined_or_not() -> None:
    """One that is examined later, and one that is not examined any more, are as old as they are."""
    model = many(6)
    producers = model.topics["t"][0].producers
    with FakeCluster(model) as cluster, limited(cluster) as collector:
        first = cycle(collector, Memory())
        producers[0].last_timestamp_ms = OLDEST_MS - 100  # was set aside
        producers[5].last_timestamp_ms = OLDEST_MS + 100  # was examined
        second = cycle(collector, first.memory)
        kept = aside(second.memory)[-1]
        third = cycle(collector, second.memory)

    then_ms = first.snapshot.cluster_time_ms
    assert set(second.memory.examined_producer_ids()) == {1, 3, 4, 5}
    assert {transaction.first_seen_ms for transaction in second.memory.transactions.values()} == {then_ms}
    assert kept == 6
    now_ms = third.snapshot.cluster_time_ms
    proved_ms = set(second.memory.transactions.others["start_ms"].tolist()) - {NULL}
    assert len(proved_ms) == 1, "one was proved to hang while it was examined"
    durations_ms = third.transactions.duration_ms[LIMIT:].tolist()
    assert set(durations_ms) == {now_ms - start_ms for start_ms in (then_ms, *proved_ms)}


def test_what_was_not_examined_is_remembered_while_its_partition_cannot_be_read() -> None:
    """As what was examined is: for a day, and not once the partition was read without it."""
    model = many(10)
    with FakeCluster(model) as cluster, limited(cluster) as collector:
        first = cycle(collector, Memory())
        model.unreadable_topics = {"t"}
        unread = cycle(collector, first.memory)
        assert len(aside(unread.memory)) == 6
        model.unreadable_topics = set()
        model.topics["t"][0].producers.clear()
        later = unread
        for _ in range(CHECKED_EVERY_CYCLES):  # a grant is noticed with the next check
            later = cycle(collector, later.memory)
        assert len(later.memory.transactions) == 0


def test_the_start_that_a_coordinator_returned_stays_when_it_is_not_examined_any_more() -> None:
    """Described in the second cycle; in the third others are idle for longer."""
    model = many(5, listed=True)
    producers = model.topics["t"][0].producers
    with FakeCluster(model) as cluster, limited(cluster) as collector:
        second = cycle(collector, cycle(collector, Memory()).memory)
        assert second.not_examined_count == 1
        producers[4].last_timestamp_ms = OLDEST_MS + 100
        third = cycle(collector, second.memory)

    assert third.snapshot.open_transactions.producer_id[LIMIT:].tolist() == [5]
    assert third.transactions.duration_ms[LIMIT:].tolist() == [third.snapshot.cluster_time_ms - OLDEST_MS]
    assert third.transactions.start_source[LIMIT:].tolist() == [StartSource.COORDINATOR]
    assert third.partitions.duration_ms_max.max() == third.snapshot.cluster_time_ms - OLDEST_MS
    assert third.transactions.is_late[LIMIT:].tolist() == [True]
    assert third.late_count == 5


@pytest.mark.parametrize("listed", [False, True], ids=["listed by nobody", "listed"])
def test_the_work_on_those_that_are_set_aside_does_not_grow_with_them(*, listed: bool) -> None:
    """3,000 more are columns: they are not objects in the evaluation, nor in the next one's memory."""
    found = []
    for count in (50, 3_050):
        with FakeCluster(many(count, listed=listed)) as cluster, limited(cluster, 10) as collector:
            snapshot = collector.collect()
            memory = evaluate(snapshot, Memory(), Policy()).memory
            found.append(calls(lambda s=snapshot, m=memory: evaluate(s, m, Policy())))  # type: ignore[misc]

    assert abs(found[1] - found[0]) < CALLS_MAX


def test_keys_are_found_by_everything_that_identifies_them() -> None:
    """Topic with its id where both know it, partition, producer id and start offset; also where one is there twice."""
    with FakeCluster(many(10)) as cluster, limited(cluster) as collector:
        keys = cycle(collector, Memory()).memory.seen.those(slice(LIMIT, None))

    assert keys.places_in(keys).tolist() == list(range(6))
    backwards = keys.those(np.arange(6)[::-1])
    assert keys.places_in(backwards).tolist() == [5, 4, 3, 2, 1, 0]
    assert keys.those(np.array([3, 3])).places_in(keys).tolist() == [3, 3]
    assert keys.places_in(keys.those(np.array([], dtype=np.int64))).tolist() == [-1] * 6
    assert keys.places_in(keys.those(np.array([2]))).tolist() == [-1, -1, 0, -1, -1, -1]


def test_those_of_an_unread_partition_are_kept_beside_the_present_ones() -> None:
    """Over many cycles: each topic is there once, so that all are found again and the memory does not grow."""
    orders = [TransactionKey("orders", 0, producer_id, 100, "id-1") for producer_id in range(3)]
    others = [TransactionKey(topic, 0, 7, 100, "id-2") for topic in ("payments", "gone")]
    present, kept = TransactionKeys.of(orders), TransactionKeys.of(others).those(np.array([0]))
    for _ in range(3):
        kept = TransactionKeys.joined((present, kept)).those(np.array([3]))
    keys = TransactionKeys.joined((present, kept))

    assert keys.topics == ("orders", "payments")
    assert keys.places_in(keys).tolist() == [0, 1, 2, 3]
    assert TransactionKeys.of([*others, *orders]).places_in(keys).tolist() == [3, -1, 0, 1, 2]


def test_a_topic_that_was_made_again_is_another_one() -> None:
    """Beside the one before it; where an id is unknown, any matches."""
    made = [TransactionKey("orders", 0, 7, 100, topic_id) for topic_id in ("id-1", "id-2", "")]
    first, second, unknown = (TransactionKeys.of([key]) for key in made)
    both = TransactionKeys.joined((first, second))

    assert (first.places_in(both).tolist(), second.places_in(both).tolist()) == ([0], [1])
    assert TransactionKeys.of([made[0]._replace(topic_id="id-3")]).places_in(both).tolist() == [-1]
    assert first.places_in(unknown).tolist() == unknown.places_in(first).tolist() == [0]


def test_past_the_deadline_no_proof_is_begun() -> None:
    """Nothing is proved, nothing is said to hang, and the gap says why."""
    now = [0.0]
    with FakeCluster(many(3)) as cluster, collector_of(cluster) as collector:
        collector._clock = lambda: now[0]

        def late(received: object) -> None:
            if getattr(received, "api", "") == "ListTransactions":
                now[0] += 1_000

        cluster.on_request = late
        evaluation = evaluate(collector.collect(), Memory(), Policy())
        apis = {request.api for request in cluster.received}

    assert "DescribeTransactions" not in apis
    assert evaluation.snapshot.proof is None
    assert {row.inconclusive_reason for row in evaluation.suspects} == {InconclusiveReason.NOT_ASKED}
    assert any("scan.deadline" in gap for gap in gaps(evaluation.snapshot))
