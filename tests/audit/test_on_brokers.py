"""The audit of real brokers: nothing about what clients do, and each fault as the real thing makes it, by its name."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from exporter.audit.job import AuditResult
from exporter.audit.reading import begin_at, list_partitions
from exporter.audit.verdicts import SETTLED_MS, AuditVerdict
from exporter.kafka.collect.topic_filter import NO_FILTER, TopicFilter
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, write_marker
from hangbench.situations.steps import EPOCH_BUMPING_VERSION, Client
from hangbench.waiting import until
from tests.audit.auditor import Auditor
from tests.conftest import FreshName, MakeCluster
from tests.marks import starts
from tests.pipeline.log_records import PATIENCE_S, settings_of, worked
from tests.workload.conftest import HASTY, PARTITIONS

REPLICATED = {
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
}
TRANSACTIONS = 60


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def careless(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A broker that lets records in without a transaction, and times transactions out within moments."""
    with KafkaCluster(request.param, properties={**HANGS_CAN_BE_PLANTED, **HASTY}) as cluster:
        yield cluster


def test_all_is_as_decided(careless: KafkaCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path) -> None:
    """Commits, aborts, time-outs and fences, audited in two runs, each of its own."""
    auditor = Auditor(spark, careless.bootstrap, tmp_path)
    topic = careless.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))
    rhythm = Rhythm(transactions=12, abort_share=0.2, stall_every=6, zombie_every=5, stall_timeout_ms=1000)
    for turn in range(2):
        decided = worked(careless, topic, fresh_name(f"turn-{turn}"), rhythm)

        result = auditor.audit()

        assert result.transactions == {AuditVerdict.AS_DECIDED: decided.total()}
        assert (result.findings, result.unread) == (Counter(), {})
    assert auditor.found() == []


def test_a_topic_that_is_chosen_later_accuses_nobody(
    careless: KafkaCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    """Decisions of before are compared with it, or are older than what is read; no marker is without one."""
    auditor = Auditor(spark, careless.bootstrap, tmp_path)
    first, second = (careless.topics.create(fresh_name("topic"), partitions=len(PARTITIONS)) for _ in range(2))
    for topic in (first, second):
        worked(careless, topic, fresh_name("worker"), Rhythm(transactions=6, abort_share=0.3))
    auditor.audit(TopicFilter([re.compile(first)], []))
    worked(careless, second, fresh_name("worker"), Rhythm(transactions=4))

    result = auditor.audit()

    assert result.findings == Counter()
    assert result.transactions[AuditVerdict.AS_DECIDED] >= 8
    of_second = [row for row in auditor.coverage() if row.topic == second]
    assert sum(row.as_decided for row in of_second) > 8


def test_a_first_audit_begins_where_the_decisions_begin(careless: KafkaCluster, fresh_name: FreshName) -> None:
    """Years of logs before them have nothing to be compared with, and would be as many unknown rows."""
    topic = careless.topics.create(fresh_name("topic"), partitions=2)
    for number in range(3):
        plant_hang(careless.bootstrap, topic, 0, fresh_name("old"), timestamp_ms=1_000 * (1 + number))
    kafka = settings_of(careless.bootstrap)
    listing = list_partitions(kafka, NO_FILTER)

    begun = [begin_at(kafka, listing, [(topic, 0), (topic, 1)], since_ms).ends for since_ms in (1, 2_500, 4_000)]

    assert [ends[topic, 0].log_start for ends in begun] == [0, 2, 3]
    assert [ends[topic, 1].log_start for ends in begun] == [0, 0, 0]
    assert begin_at(kafka, listing, [], 4_000) == listing


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_nothing_is_said_while_brokers_die(
    version: str, make_cluster: MakeCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    """Producers of every kind on three brokers, of which one after the other is killed and started again."""
    cluster = make_cluster(version, nodes=3, properties={**HASTY, **REPLICATED})
    topic = cluster.topics.create(fresh_name("topic"), partitions=6)
    auditor = Auditor(spark, cluster.bootstrap, tmp_path)
    rhythm = Rhythm(
        transactions=TRANSACTIONS,
        abort_share=0.2,
        stall_every=40,
        zombie_every=30,
        crash_every=50,
        stall_timeout_ms=2000,
    )
    results: list[AuditResult] = []
    with Workload(cluster.bootstrap, [(topic, number) for number in range(6)]) as workload:
        for number in range(8):
            workload.add(f"worker-{number}", rhythm)
        turn = 0
        while not workload.is_done:
            broker = cluster.broker(1 + turn % 3)
            broker.kill()
            time.sleep(2)
            broker.start()
            broker.wait_until_serving(range(1, 4))
            turn += 1
            if turn % 4 == 0:
                results.append(auditor.audit())
    assert workload.failures == []
    results.append(until(auditor.audit, lambda result: not result.unread, patience_s=PATIENCE_S))

    found = [row for row in auditor.found() if row.verdict != AuditVerdict.UNKNOWN.value]
    assert found == []
    audited = sum((result.transactions for result in results), Counter())
    total = workload.ledger.total()
    assert audited.total() >= total.committed + total.aborted + total.timed_out + total.fenced
    assert len(results) > 1


def test_each_fault_has_its_name(
    careless: KafkaCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    auditor = Auditor(spark, careless.bootstrap, tmp_path)
    bootstrap = careless.bootstrap
    topic = careless.topics.create(fresh_name("topic"), partitions=8)
    expected = set()

    # An operator aborts on one partition what the application then commits.
    torn = Client.begin(bootstrap, fresh_name("torn"))
    torn.add(topic, [0, 1])
    torn.write(topic, 0)
    torn.write(topic, 1)
    write_marker(bootstrap, topic, 0, torn.producer_id, torn.producer_epoch)
    torn.end(commit=True)
    expected.add(("torn", torn.producer_id, 0))

    # The same where there is no other partition, by a client of TransactionVersion 2.
    contradicted = Client.begin(bootstrap, fresh_name("contradicted"))
    contradicted.open(topic, 2)
    write_marker(bootstrap, topic, 2, contradicted.producer_id, contradicted.producer_epoch)
    contradicted.end(commit=True, version_cap=EPOCH_BUMPING_VERSION)
    expected.add(("contradicted", contradicted.producer_id, 2))

    # A record of the application's former process is ended by the transaction of its successor.
    name = fresh_name("adopted")
    former = Client.begin(bootstrap, name)
    former.write(topic, 3)
    successor = Client.begin(bootstrap, name)
    successor.open(topic, 3)
    successor.end(commit=True)
    expected.add(("closed_by_another", successor.producer_id, 3))

    # A record without a transaction, that an operator aborts.
    hang = plant_hang(bootstrap, topic, 4, fresh_name("late"))
    write_marker(bootstrap, topic, 4, hang.producer_id, hang.producer_epoch)
    expected.add(("marker_without_decision", hang.producer_id, 4))

    # Records on a partition that the transaction does not include, and that nothing ends.
    outside = Client.begin(bootstrap, fresh_name("outside"))
    outside.open(topic, 5)
    outside.write(topic, 6)
    outside.end(commit=True, version_cap=EPOCH_BUMPING_VERSION)
    has_epochs = careless.version != "3.9.1"  # without one of its own they may be of its next transaction
    if has_epochs:
        expected.add(("records_outside", outside.producer_id, 6))

    # And one that is only open.
    still_open = Client.begin(bootstrap, fresh_name("open"))
    still_open.open(topic, 7)

    worked(careless, topic, fresh_name("others"), Rhythm(transactions=3))
    result = auditor.audit()

    found = auditor.found()
    assert {(row.verdict, row.producer_id, row.partition) for row in found} == expected
    assert len(found) == len(expected)
    assert result.findings.total() == len(result.examples) == len(expected)
    assert result.transactions - Counter({AuditVerdict.AS_DECIDED: result.transactions[AuditVerdict.AS_DECIDED]}) == {
        AuditVerdict.TORN: 1,
        AuditVerdict.CONTRADICTED: 1,
        AuditVerdict.CLOSED_BY_ANOTHER: 1,
        **({AuditVerdict.RECORDS_OUTSIDE: 1} if has_epochs else {}),
    }


@pytest.mark.slow
def test_the_program_says_what_contradicts(
    careless: KafkaCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    """As an operator runs it: a sentence, status 3, and status 0 of the next run, which has nothing to say."""
    auditor = Auditor(spark, careless.bootstrap, tmp_path)
    topic = careless.topics.create(fresh_name("topic"))
    client = Client.begin(careless.bootstrap, fresh_name("contradicted"))
    client.open(topic, 0)
    write_marker(careless.bootstrap, topic, 0, client.producer_id, client.producer_epoch)
    client.end(commit=True, version_cap=EPOCH_BUMPING_VERSION)
    time.sleep(SETTLED_MS / 1000 + 5)
    auditor.read_log()
    arguments = [
        f"--tables={tmp_path / 'tables'}",
        f"--bootstrap-server={careless.bootstrap}",
        f"--temporary={tmp_path}",
    ]
    only = f"--scan.topics.include={topic}"
    command = [
        sys.executable,
        "-m",
        "exporter",
        "pipeline",
        "audit",
        "--master=local[2]",
        "--max-rate=10MB",
        only,
        *arguments,
    ]

    first, second = (subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(2))

    assert (first.returncode, first.stderr) == (3, "")
    assert re.search(
        r"^[\d,]+ transactions? audited on 1 partition .+: 1 not as decided\.$", first.stdout, re.MULTILINE
    )
    assert f"\n  contradicted on {topic}-0 from offset 0: transactional id {client.transactional_id}, " in first.stdout
    assert (second.returncode, second.stderr) == (0, "")
    assert (
        "\n0 transactions audited on 1 partition (0 bytes read): no new decision is a minute old, so nothing was "
        "compared.\n" in second.stdout
    )
