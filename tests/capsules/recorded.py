"""Records cycles of a reader that reads a fake cluster."""

from __future__ import annotations

from collections.abc import Callable

from exporter.capsules.cycle import RecordedCycle
from exporter.capsules.file import Capsule, expected_of
from exporter.capsules.recording import RING_CYCLES_MAX, RecordingConnections, RecordingReader
from exporter.cycle import EvaluationInput
from exporter.evaluation.memory import Memory
from exporter.kafka.client.connections import Address
from exporter.kafka.collect.collector import CollectOptions
from exporter.kafka.collect.topic_filter import NO_FILTER, TopicFilter
from exporter.transaction_log.journal import NO_JOURNAL
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Model
from tests.kafka.loopback import HOST
from tests.kafka.scene import POLICY


def recorded(
    model: Model,
    *,
    cycles: int,
    prepare: Callable[[FakeCluster], object] = lambda _: None,
    topics: TopicFilter = NO_FILTER,
) -> Capsule:
    """The cycles of a reader of this cluster, with what each has shown."""
    with FakeCluster(model, nodes=2) as cluster:
        reader = RecordingReader(
            RecordingConnections({}, client_id="tests"),
            [Address(HOST, port) for port in cluster.ports.values()],
            CollectOptions(deadline_s=60, request_timeout_s=2, topics=topics),
        )
        prepare(cluster)
        memory, kept, expected = Memory(), list[RecordedCycle](), list[bytes]()
        for _ in range(cycles):
            evaluation = reader.cycle(EvaluationInput(memory=memory, policy=POLICY), lambda _: NO_JOURNAL)
            memory = evaluation.memory
            kept.append(reader.ring[-1].recorded())
            expected.append(expected_of(evaluation))
        assert len(reader.ring) == min(cycles, RING_CYCLES_MAX)
        reader.close()
    return Capsule(cycles=tuple(kept), expected=tuple(expected))
