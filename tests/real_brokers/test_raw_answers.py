"""The exporter's decoders and kafka-python's read the same bytes of real brokers alike."""

from __future__ import annotations

from functools import partial

from kafka.protocol.admin.transactions import DescribeProducersResponse
from kafka.protocol.consumer.offsets import ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse

from exporter.kafka.client.connections import Address, Connections
from exporter.kafka.messages import describe_producers, list_offsets, metadata
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.versions import LIST_OFFSETS, METADATA
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang_without_id, plant_producers
from hangbench.kafka.wire import first_address
from tests.conftest import MakeTopic
from tests.kafka.messages.metadata import columns as metadata_columns
from tests.kafka.messages.producers import columns as producer_columns

PRODUCERS = range(8_000_000_000, 8_000_000_150)
"""So many that their number takes two bytes."""


def answered(connections: Connections, broker: Address, request: RawRequest) -> memoryview:
    """The body as it came."""
    ask = partial(connections.receive, broker, request, api=request.name, timeout_s=60)
    return memoryview(bytes(connections.run(ask).answer.body))


def test_real_responses_are_read_as_kafka_python_reads_them(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    """Metadata by name and of all, producers idle and open, offsets; an unknown topic and partition among them."""
    topic = make_topic(broker, partitions=3)
    plant_producers(broker.bootstrap, topic, [1], PRODUCERS)
    plant_hang_without_id(broker.bootstrap, topic, 0)
    plant_hang_without_id(broker.bootstrap, topic, 1)
    connections = Connections({}, client_id="tests")
    ask = partial(answered, connections, Address(*first_address(broker.bootstrap)))
    try:
        bodies = [ask(metadata.request(topics)) for topics in (None, (topic, "never-heard-of"))]
        producers = ask(describe_producers.request({topic: [0, 1, 2, 7]}))
        offsets = ask(list_offsets.request({topic: [0, 1, 2, 7]}, 1, -1))
    finally:
        connections.close()

    for body in bodies:
        assert metadata_columns(metadata.decode(body)) == [
            (
                topic.name,
                topic.error_code,
                [
                    (p.partition_index, p.leader_id, p.leader_epoch, list(p.replica_nodes), list(p.isr_nodes), [])
                    for p in topic.partitions
                ],
            )
            for topic in MetadataResponse.decode(bytes(body), version=METADATA.highest).topics
        ]
    ours = producer_columns(describe_producers.decode(producers))
    theirs = DescribeProducersResponse.decode(bytes(producers), version=0).topics[0].partitions
    assert ours[2] == [(0, p.partition_index, p.error_code, len(p.active_producers)) for p in theirs]
    assert sorted(row for _, row in ours[3]) == sorted(
        (
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_timestamp,
            state.coordinator_epoch,
            state.current_txn_start_offset,
        )
        for p in theirs
        for state in p.active_producers
        if state.current_txn_start_offset >= 0
    )
    assert max(count for *_, count in ours[2]) > len(PRODUCERS)
    assert list_offsets.decode(offsets) == {
        (topic, p.partition_index): (p.error_code, p.offset)
        for p in ListOffsetsResponse.decode(bytes(offsets), version=LIST_OFFSETS.highest).topics[0].partitions
    }
