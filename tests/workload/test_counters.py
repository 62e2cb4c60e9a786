"""The workload's outcomes and the exporter's counters are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.workload.rhythm import Rhythm
from examples.workload.truth import Counts
from examples.workload.workload import Workload
from hangbench.kafka.cluster import KafkaCluster
from hangbench.waiting import until
from tests.conftest import FreshName, MakeCluster
from tests.real_brokers.exporting import Exporter, Series
from tests.real_brokers.log_reading import MINE, completed, counting
from tests.workload.conftest import HASTY, PARTITIONS

PATIENCE_S = 120
TROUBLED = Rhythm(
    transactions=20, abort_share=0.2, stall_every=13, zombie_every=7, crash_every=17, stall_timeout_ms=1000
)


def truth(counts: Counts) -> dict[str, int]:
    """Outcome -> number, as the workload has it."""
    assert counts.unresolved == 0
    return {
        "commit": counts.committed,
        "abort": counts.aborted,
        "timeout": counts.timed_out,
        "fenced": counts.fenced,
    }


def all_counted(exporter: Exporter, total: Counts) -> dict[str, Series]:
    """The metrics once as many transactions are counted as the workload began: any more would be seen a little later."""
    metrics = exporter.until(lambda m: sum(completed(m).values()) >= total.begun)
    cycles = metrics["kafka_transaction_exporter_cycles_total"][()]
    return exporter.until(lambda m: m["kafka_transaction_exporter_cycles_total"][()] >= cycles + 2)


def work(bootstrap: str, topic: str, prefix: str, ids: int, rhythm: Rhythm) -> Workload:
    workload = Workload(bootstrap, [(topic, partition) for partition in PARTITIONS])
    for number in range(ids):
        workload.add(f"{prefix}-{number}", rhythm)
    return workload


def until_committed(workload: Workload, more: int) -> None:
    wanted = workload.ledger.total().committed + more
    until(lambda: workload.ledger.total().committed >= wanted, patience_s=PATIENCE_S)


def test_every_trouble_is_counted_as_what_it_was(
    hasty: KafkaCluster, topic: str, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Aborts, time-outs, fences and crashes of three ids, seen live."""
    prefix = fresh_name("truth")
    with counting(hasty.bootstrap, tmp_path, prefix) as exporter:
        workload = work(hasty.bootstrap, topic, prefix, 3, TROUBLED)
        until(lambda: workload.is_done, patience_s=PATIENCE_S)
        total = workload.ledger.total()
        metrics = all_counted(exporter, total)

    assert workload.failures == []
    assert min(truth(total).values()) > 0
    assert completed(metrics) == truth(total)
    durations = metrics["kafka_transaction_duration_seconds_count"]
    assert sum(value for (group, _), value in durations.items() if group == MINE) == total.begun
    assert metrics["kafka_transaction_marker_seconds_count"][MINE,] == total.begun


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "transaction_version"), [("4.3.1", 2), ("4.3.1", 1), ("4.3.1", 0), ("3.9.1", None)]
)
def test_brokers_die_coordinators_move_and_the_counts_stay_equal(
    make_cluster: MakeCluster,
    fresh_name: FreshName,
    tmp_path: Path,
    version: str,
    transaction_version: int | None,
) -> None:
    """Three nodes, each killed and started again under way, so that every coordinator moves; the exporter reads on."""
    cluster = make_cluster(version, nodes=3, properties=HASTY)
    if transaction_version is not None and transaction_version < 2:
        cluster.downgrade_transactions(transaction_version)
    topic = cluster.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))
    prefix = fresh_name("truth")
    with counting(cluster.bootstrap, tmp_path, prefix) as exporter:
        rhythm = Rhythm(abort_share=0.2, stall_every=17, zombie_every=11, hold_s=0.02)
        with work(cluster.bootstrap, topic, prefix, 4, rhythm) as workload:
            for broker in cluster.brokers:
                until_committed(workload, 20)
                broker.kill()
                broker.launch()
                cluster.wait_until_serving()
            until_committed(workload, 20)
        total = workload.ledger.total()
        metrics = all_counted(exporter, total)

    assert workload.failures == []
    assert min(truth(total).values()) > 0
    assert completed(metrics) == truth(total)
