"""A broker whose coordinators check for time-outs all the time, and what can be read from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import pytest

from examples.workload.truth import Counts
from exporter.transaction_log.events import Outcome
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.waiting import until
from tests.brokers.messages import completed, read_log, read_messages
from tests.conftest import FreshName
from tests.marks import starts

PARTITIONS = range(3)
PATIENCE_S = 60
HASTY: Properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}


@pytest.fixture(scope="session", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def hasty(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """It hands out time-outs within moments. Leave it running: the tests of this folder share it."""
    with KafkaCluster(request.param, properties=HASTY) as cluster:
        yield cluster


@pytest.fixture
def topic(hasty: KafkaCluster, fresh_name: FreshName) -> str:
    return hasty.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))


@pytest.fixture
def name(fresh_name: FreshName) -> str:
    """A transactional id, or what ids begin with."""
    return fresh_name("worker")


def logged(counts: Counts) -> Counter[Outcome]:
    """The truth as the coordinators' log should have it."""
    assert counts.unresolved == 0
    assert counts.begun == counts.committed + counts.aborted + counts.timed_out + counts.fenced
    return +Counter(
        {
            Outcome.COMMITTED: counts.committed,
            Outcome.ABORTED: counts.aborted,
            Outcome.TIMED_OUT: counts.timed_out,
            Outcome.FENCED: counts.fenced,
        }
    )


def log_after(cluster: KafkaCluster, transactional_ids: Collection[str], transactions: int) -> Counter[Outcome]:
    """Outcomes of these ids in the log, once so many are completed: markers are written after the client was answered."""
    return until(
        lambda: completed(read_log(cluster.bootstrap), transactional_ids),
        lambda logged: logged.total() >= transactions,
        patience_s=PATIENCE_S,
    )


def committed_values(cluster: KafkaCluster, topic: str) -> list[bytes]:
    """What a read_committed consumer gets, by partition and offset; ask when all transactions are completed."""
    messages = read_messages(cluster.bootstrap, topic, PARTITIONS)
    values = [each.value() for each in sorted(messages, key=lambda each: (each.partition() or 0, each.offset() or 0))]
    return [value for value in values if isinstance(value, bytes)]
