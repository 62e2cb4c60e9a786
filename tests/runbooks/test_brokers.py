"""The runbooks of brokers that are gone and of replicas that disagree, and the common page: three nodes."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.workload.producers import run_transaction
from exporter.commands.context import CONFIG_FILE
from exporter.evaluation.verdicts import Verdict
from exporter.kafka.lookups import KafkaRequestError
from exporter.snapshot import STATE_TOPIC
from hangbench import waiting
from hangbench.kafka.broker import Broker
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.planting import (
    HANGS_CAN_BE_PLANTED,
    init_producer_id,
    plant_hang,
    plant_hang_without_id,
    write_marker,
)
from hangbench.kafka.wire import BrokerRefused
from hangbench.situations.ground import leader_ids, until
from hangbench.situations.steps import partition_of
from tests.brokers.messages import committed_records
from tests.conftest import MakeCluster
from tests.marks import starts
from tests.real_brokers.exporting import serving
from tests.real_brokers.replicas import (
    LOG,
    TOPIC,
    create_on_two,
    log_with_marker,
    partition_folder,
    producers_at,
    records_after_deletion,
    restore,
    verdict_until,
)
from tests.runbooks.desk import LISTENS, Desk
from tests.watching import Watch

pytestmark = pytest.mark.broker

NO_LEADER = -1
INVALID_TXN_STATE = 48
COMPLETE = "kafka_transaction_exporter_coverage_complete"
DOCTOR = "kafka-transaction-exporter doctor --cluster"
ABORT = (
    "kafka-transaction-exporter abort --bootstrap-server $BOOTSTRAP --topic $TOPIC --partition $PARTITION "
    "--start-offset 0 --yes"
)
"""The command that the pages forbid, and that is refused."""


@pytest.fixture(scope="module")
@starts("broker")
def trio() -> Iterator[KafkaCluster]:
    """Three nodes; each partition of `__transaction_state` has one replica, so that one node takes some with it.

    The last test that uses it makes it refuse to have hangs planted.
    """
    properties: Properties = {**HANGS_CAN_BE_PLANTED, "transaction.state.log.replication.factor": 1}
    with KafkaCluster("4.3.1", nodes=3, properties=properties) as cluster:
        yield cluster


def desk_at(folder: Path, cluster: KafkaCluster, **variables: str) -> Desk:
    (folder / "desk").mkdir()
    made = Desk(folder / "desk", {"BOOTSTRAP": cluster.bootstrap, **variables})
    made.has_tools_of(cluster)
    return made


def test_protection_missing(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """A cluster in which verification is off: what is found, and that the command puts it in place."""
    cluster = make_cluster("4.3.1")
    cluster.topics.create("orders")
    run_transaction(cluster.bootstrap, "app", [("orders", 0)])
    desk = desk_at(tmp_path, cluster, **{CONFIG_FILE: str(tmp_path / "config.yaml")})
    (tmp_path / "config.yaml").write_text(f"kafka.bootstrap.servers: '{cluster.bootstrap}'\n")

    with desk.reading("KafkaTransactionProtectionMissing") as person:
        person.pastes("doctor --cluster", shows="transaction.partition.verification.enable: false")
        person.pastes("kafka-configs.sh", shows="Completed updating default config for brokers")

        def is_in_place() -> bool:
            return "verification.enable: true" in desk.run(DOCTOR).output

        until(is_in_place, "the brokers use the new setting")


@contextmanager
def running_again(broker: Broker) -> Iterator[None]:
    """At the end it runs, so that a failure is not also one of the next test."""
    try:
        yield
    finally:
        if not broker.running:
            broker.start()


@pytest.mark.slow
def test_inconclusive_and_coverage_incomplete(trio: KafkaCluster, tmp_path: Path) -> None:
    """A broker is gone, with a coordinator and a partition: nothing is proved and the gaps are shown until it is back."""
    topic = trio.topics.create_on("orders", [1, 3])
    init_producer_id(trio.bootstrap, "first")
    leads = leader_ids(trio.bootstrap, STATE_TOPIC)
    names = (f"hang-{number}" for number in itertools.count())
    # Another coordinator would know the id, and that is proof enough.
    plant_hang(trio.bootstrap, topic, 0, next(name for name in names if leads[partition_of(name, len(leads))] == 3))
    trio.broker(3).stop()
    until(lambda: leader_ids(trio.bootstrap, topic) == {0: 1, 1: NO_LEADER}, "node 3 is given up")
    desk = desk_at(tmp_path, trio, TOPIC=topic, PARTITION="0", **{CONFIG_FILE: str(tmp_path / "config.yaml")})
    path = tmp_path / "config.yaml"
    path.write_text(f"kafka.bootstrap.servers: '{trio.bootstrap}'\n")

    with (
        running_again(trio.broker(3)),
        serving(None, tmp_path, config_file=path) as exporter,
        desk.reading("KafkaTransactionInconclusive", "Diagnosis") as judge,
        desk.reading("KafkaTransactionExporterCoverageIncomplete") as surveyor,
    ):
        desk.variables[LISTENS] = exporter.url.removeprefix("http://")
        exporter.until(lambda metrics: metrics.get(COMPLETE, {}).get((), 1) == 0)
        judge.pastes("find-hanging", status=4, shows="a partition of __transaction_state has no leader")
        judge.pastes("find-hanging", "json", shows='"inconclusive_reason": "state_partition_offline"')
        judge.pastes("kafka-topics.sh", shows="__transaction_state")
        assert desk.run(ABORT).status == 5
        surveyor.pastes("once", status=4, shows="partitions are unread (no_leader)")
        surveyor.pastes("get", shows='kafka_transaction_exporter_unread_partitions{reason="no_leader"}')
        surveyor.pastes("kafka-topics.sh", shows=topic)

        trio.broker(3).start()
        trio.wait_until_serving()
        surveyor.pastes_until(lambda done: done.status == 0, "get", "coverage_complete")


def is_let_in(cluster: KafkaCluster, topic: str) -> bool:
    """Whether the leader takes a record of a transaction that its coordinator never heard of."""
    try:
        plant_hang(cluster.bootstrap, topic, 0, "late")
    except BrokerRefused as refused:
        if refused.error_code != INVALID_TXN_STATE:
            raise
        return False
    return True


@pytest.mark.slow
def test_so_that_it_does_not_come_back(trio: KafkaCluster, tmp_path: Path) -> None:
    """Verification was off and the version is old: after the page's commands the leader refuses what made the hang."""
    cluster, topic = trio, trio.topics.create("payments")
    hang = plant_hang(cluster.bootstrap, topic, 0, "late")
    cluster.downgrade_transactions(1)
    desk = desk_at(tmp_path, cluster, BROKER="1")
    abort = f"abort --topic {topic} --partition 0 --start-offset {hang.start_offset} --yes"
    assert desk.run(f"kafka-transaction-exporter {abort} --bootstrap-server $BOOTSTRAP").status == 0

    with desk.reading("README") as operator:
        operator.pastes("tail", shows='"done": true')
        operator.pastes("kafka-configs.sh", "--describe", shows="transaction.partition.verification.enable=false")
        operator.pastes("kafka-features.sh", "describe", shows="FinalizedVersionLevel: 1")
        operator.pastes("kafka-configs.sh", "--alter", shows="Completed updating default config")
        operator.pastes("kafka-features.sh", "upgrade", shows="transaction.version was upgraded to 2")

    until(lambda: not is_let_in(cluster, topic), "a late write is refused")


@pytest.mark.slow
def test_inconclusive_where_a_replica_does_not_know_the_producer(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """Its election ends the hang, without a marker; the other replicas are made anew."""
    cluster = make_cluster("4.3.1", nodes=3)
    records_after_deletion(cluster, tmp_path)
    desk = desk_at(tmp_path, cluster, TOPIC=TOPIC, PARTITION="0", REPLICAS="3,1,2")

    with desk.reading("KafkaTransactionInconclusive") as operator:
        operator.pastes("find-hanging", status=4, shows="does not know the producer")
        operator.pastes("find-hanging", "json", shows='"inconclusive_reason": "replica_unaware"')
        operator.pastes("kafka-topics.sh")
        assert desk.run(ABORT).status == 5
        reassign = operator.commands[operator.done].text
        operator.pastes("kafka-reassign-partitions.sh", shows="Successfully started partition reassignment")
        operator.pastes_until(lambda done: "Successfully completed" in done.output, "kafka-leader-election.sh")
        operator.pastes_until(lambda done: TOPIC not in done.output, "find-hanging", "--all")
    for replicas in ("3", "3,1,2"):
        desk.variables["REPLICAS"] = replicas
        until(lambda: "Successfully started" in desk.run(reassign).output, f"the replicas become {replicas}")
    assert producers_of(cluster, 1) == producers_of(cluster, 2) == set()


def producers_of(cluster: KafkaCluster, broker: int) -> set[int]:
    """The producers that this replica knows, once it has one again."""
    with Watch(cluster.bootstrap) as watch:
        watch.cycle()
        return waiting.until(lambda: known_at(watch, broker), lambda known: known is not None) or set()


def known_at(watch: Watch, broker: int) -> set[int] | None:
    try:
        return producers_at(watch, broker)
    except KafkaRequestError:
        return None


@pytest.mark.slow
def test_replica_diverged(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """Each replica is asked, abort refuses, and making the follower the leader shows the committed record to consumers."""
    cluster = make_cluster("4.3.1", nodes=3)
    create_on_two(cluster)
    hang = plant_hang(cluster.bootstrap, TOPIC, 0, "app")
    log_with_marker(make_cluster, hang, tmp_path / LOG)
    cluster.broker(2).stop()
    # As long as the follower's log, so that it has no reason to truncate its own.
    plant_hang_without_id(cluster.bootstrap, TOPIC, 0, producer_id=8_700_000_001)
    write_marker(cluster.bootstrap, TOPIC, 0, 8_700_000_001, 0)
    restore(cluster.broker(2), tmp_path / LOG)
    cluster.broker(2).start()
    cluster.wait_until_serving()
    with Watch(cluster.bootstrap) as watch:
        verdict_until(watch, Verdict.REPLICA_DIVERGED)
    desk = desk_at(tmp_path, cluster, TOPIC=TOPIC, PARTITION="0", BROKER="2")

    with desk.reading("KafkaTransactionReplicaDiverged") as operator:
        operator.pastes("find-hanging", shows="the replica on broker 2 has its marker")
        operator.pastes("kafka-topics.sh", shows="Leader: 1")
        at_follower = operator.pastes("describe-producers", "--broker-id").output
        assert desk.run(ABORT).status == 5
        # The cluster's operator makes the follower the leader, and the old leader's copy is made from it.
        cluster.broker(1).stop()
        until(lambda: leader_ids(cluster.brokers[1].address, TOPIC) == {0: 2}, "the follower leads")
        shutil.move(partition_folder(cluster.broker(1), TOPIC), tmp_path / "kept")
        cluster.broker(1).start()
        cluster.wait_until_serving()
        operator.pastes_until(lambda done: TOPIC not in done.output, "find-hanging", "--all")

    assert [row.split()[-1] for row in at_follower.splitlines()[1:] if row.split()[0] == str(hang.producer_id)] == [
        "None"
    ]
    assert committed_records(cluster, TOPIC, hang.start_offset) == [hang.start_offset]
