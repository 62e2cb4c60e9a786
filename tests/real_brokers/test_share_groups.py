"""Groups of the newer types, share, consumer and streams, behind a transaction on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.workload.producers import run_transaction
from exporter.evaluation.verdicts import BlockedGroup, Evaluation
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.groups import joined_with_the_new_protocol, share_consumer, streams_group
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, write_marker
from hangbench.waiting import until
from tests.conftest import FreshName, MakeTopic
from tests.marks import starts
from tests.real_brokers.exporting import ask_why, called
from tests.watching import Watch, rows_on

ONE_NODE = {
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.state.topic.replication.factor": 1,
}


@pytest.fixture(scope="module")
@starts("broker")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("4.3.1", properties={**HANGS_CAN_BE_PLANTED, **ONE_NODE}) as made:
        yield made


def test_a_share_group_of_committed_records_is_blocked_and_one_of_all_records_is_not(
    cluster: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path
) -> None:
    """The start offset that the broker has stored is behind; the lag says how far a share group has come."""
    topic = make_topic(cluster, partitions=2)
    committed, everything, joined = fresh_name("committed"), fresh_name("everything"), fresh_name("joined")
    run_transaction(cluster.bootstrap, fresh_name("before"), [(topic, 0)], records=3)
    hang = plant_hang(cluster.bootstrap, topic, 0, fresh_name("hang"))
    run_transaction(cluster.bootstrap, fresh_name("behind"), [(topic, 0)], records=5)

    def blocked(evaluation: Evaluation) -> list[BlockedGroup]:
        return [group for group in evaluation.blocked_groups if group.topic == topic]

    def positions(evaluation: Evaluation) -> dict[str, int]:
        impact = evaluation.snapshot.impact
        return {} if impact is None else {offset.group: offset.offset for offset in impact.on(topic, 0)}

    def end_of(evaluation: Evaluation) -> int:
        """The high watermark: seven offsets behind the hang, or eight where its coordinator sent a marker twice."""
        return hang.start_offset + (rows_on(evaluation, topic)[0].last_stable_offset_lag or 0)

    with ExitStack() as stack, Watch(cluster.bootstrap) as watch:
        stack.enter_context(share_consumer(cluster, committed, topic, "read_committed"))
        stack.enter_context(share_consumer(cluster, everything, topic, "read_uncommitted"))
        stack.enter_context(joined_with_the_new_protocol(cluster, joined, topic))
        evaluation = until(
            watch.cycle,
            lambda cycle: (
                {committed, everything, joined} == positions(cycle).keys()
                and positions(cycle)[committed] == hang.start_offset < positions(cycle)[everything] == end_of(cycle)
            ),
        )
        evaluation = watch.cycle()  # who stands at a new hang in one look may only pass by
        why = ask_why(cluster, tmp_path, "--group", committed)
        free = ask_why(cluster, tmp_path, "--group", everything)
        where = ("--topic", topic, "--partition", "0", "--start-offset", str(hang.start_offset))
        plan = called(tmp_path, "abort", "--bootstrap-server", cluster.bootstrap, *where, "--dry-run")
        write_marker(cluster.bootstrap, topic, 0, hang.producer_id, hang.producer_epoch)
        ended = until(
            lambda: ask_why(cluster, tmp_path, "--group", committed),
            lambda answer: not answer["holds"] and not answer["lag"],
        )

    waiting = end_of(evaluation) - hang.start_offset
    assert {group.group: group.records for group in blocked(evaluation)} == dict.fromkeys((committed, joined), waiting)
    assert evaluation.snapshot.impact is not None
    assert evaluation.snapshot.impact.failures == ()
    (hold,) = why["holds"]
    assert (hold["committed_offset"], hold["waiting_offsets"]) == (hang.start_offset, waiting)
    assert hold["transaction"]["verdict"] == "hanging_not_in_transaction"
    assert (free["holds"], free["lag"], free["unknown"]) == ([], 0, [])
    assert f"{committed} (" in plan.stdout
    assert "not all are known" not in plan.stdout
    assert ended["partitions"] == 1


def test_a_streams_group_is_blocked_like_any_other(
    cluster: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    """KIP-1071: the broker lists its type, and has its offsets as those of consumers."""
    topic, group = make_topic(cluster), fresh_name("application")
    hang = plant_hang(cluster.bootstrap, topic, 0, fresh_name("hang"))
    streams_group(cluster, group, topic, hang.start_offset)

    with Watch(cluster.bootstrap) as watch:
        found = watch.cycle().blocked_groups

    assert group in [blocked.group for blocked in found if blocked.topic == topic]


@pytest.mark.broker
def test_a_share_group_whose_state_cannot_be_written_is_not_known(tmp_path: Path) -> None:
    """The broker cannot make `__share_group_state`, as on one node by default, and does not respond about such groups."""
    properties: Properties = {**HANGS_CAN_BE_PLANTED, "share.coordinator.state.topic.replication.factor": 3}
    with KafkaCluster("4.3.1", properties=properties) as cluster:
        topic = cluster.topics.create("orders", partitions=1)
        plant_hang(cluster.bootstrap, topic, 0, "hang")
        run_transaction(cluster.bootstrap, "behind", [(topic, 0)], records=3)
        with share_consumer(cluster, "sharers", topic, "read_committed"):
            asked = ("--bootstrap-server", cluster.bootstrap)
            found = until(
                lambda: called(tmp_path, "find-hanging", *asked),
                lambda done: "share groups" in done.stderr,
                patience_s=60,
            )
            of_group, of_topic = (
                called(tmp_path, "why", *asked, *question) for question in (("--group", "sharers"), ("--topic", topic))
            )

    assert "not every group that stands still is known: share groups are not examined" in found.stderr
    assert "it is a share group of which Kafka has no offset" in of_group.stdout
    assert "Not known: which other groups wait: share groups are not examined" in of_topic.stdout
    assert (found.returncode, of_group.returncode, of_topic.returncode) == (4, 4, 4)
