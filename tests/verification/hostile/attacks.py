"""Prepares each attack: a function that configures a peer for it, in a given size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka.protocol.metadata import MetadataResponse

from exporter.snapshot import STATE_TOPIC
from tests.kafka.fake_broker import FETCH, Fault, Received
from tests.kafka.fake_model import Partition, Producer, Transaction
from tests.kafka.log_batch import GZIP, values_batch
from tests.kafka.loopback import framed
from tests.verification.hostile import peer as bytes_of
from tests.verification.hostile.peer import Peer

Arrange = Callable[[Peer, int], None]
GAP_MAX: Final = 999_999

NAMES: Final = (
    '<script>alert(1)</script>&"quoted"',
    'x"} 1\nforged_series{a="b',
    "nul\0bell\x07escape\x1b[2J\x9b31m",
    "\u202eright to left\u2066",
    "line\u2028separator\u0085next",
    "# EOF",
    "{{ $labels }} {{ define }} %s %(x)s ${HOME} \\",
    "=cmd|' /C calc'!A0",
    "\ufeff\u200b\u0301combining",
    "",
    " ",
)
"""Every kind except those that are not text."""


def on_responses(change: Callable[[Received, Any], None], *apis: str) -> Arrange:
    """Responses of some APIs changed; of all where none is named."""

    def arrange(peer: Peer, _count: int) -> None:
        def on_response(received: Received, response: Any) -> None:
            if not apis or received.api in apis:
                change(received, response)

        peer.on_response = on_response

    return arrange


def on_requests(fault: Fault | int, *apis: str) -> Arrange:
    """Requests of some APIs fail; of all where none is named."""

    def arrange(peer: Peer, _count: int) -> None:
        peer.on_request = lambda received: fault if not apis or received.api in apis else None

    return arrange


def replaced(api: str, replace: Callable[[int], bytes_of.Replace]) -> Arrange:
    def arrange(peer: Peer, count: int) -> None:
        peer.replace[api] = replace(count)

    return arrange


def gaps(peer: Peer, count: int) -> None:
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition

    def on_response(received: Received, response: Any) -> None:
        if received.api == "Metadata" and received.request.topics is None:
            response.topics += [
                topic_type(
                    version=response.API_VERSION,
                    name=f"gap{number}",
                    partitions=[
                        partition_type(
                            version=response.API_VERSION,
                            error_code=0,
                            partition_index=GAP_MAX,
                            leader_id=1,
                            replica_nodes=[1],
                            isr_nodes=[1],
                        )
                    ],
                )
                for number in range(count)
            ]

    peer.on_response = on_response


def one_partition_on_each(peer: Peer) -> None:
    peer.model.topics["everywhere"] = [Partition(node) for node in peer.ports]


def announced(peer: Peer, _count: int) -> None:
    one_partition_on_each(peer)
    peer.replace["DescribeProducers"] = bytes_of.announced(100_000_000)


def many_open(peer: Peer, count: int) -> None:
    peer.model.topics["many"] = [Partition(1, producers=[bytes_of.marked()])]
    peer.replace["DescribeProducers"] = bytes_of.many_producers(count)


def many_topics(peer: Peer, count: int) -> None:
    peer.model.topics |= {str(number).zfill(249): [Partition(1)] for number in range(count)}


def many_state_partitions(peer: Peer, count: int) -> None:
    peer.model.topics[STATE_TOPIC] = [Partition(1 + number % 2) for number in range(count)]


def many_brokers(peer: Peer, count: int) -> None:
    def on_response(received: Received, response: Any) -> None:
        if received.api == "Metadata":
            broker_type = MetadataResponse.MetadataResponseBroker
            response.brokers += [
                broker_type(version=response.API_VERSION, node_id=1000 + number, host=f"b{number}.invalid", port=9092)
                for number in range(count)
            ]

    peer.model.topics["elsewhere"] = [Partition(1000 + number) for number in range(count)]
    peer.on_response = on_response


def leaders_that_move(peer: Peer, _count: int) -> None:
    """At every request, the queried broker is no longer the leader."""
    epochs = itertools.count(1)

    def on_request(received: Received) -> None:
        if received.api == "DescribeProducers":
            epoch = next(epochs)
            for partitions in peer.model.topics.values():
                for partition in partitions:
                    partition.leader, partition.leader_epoch = 3 - received.node, epoch

    peer.on_request = on_request


def names(peer: Peer, count: int) -> None:
    for number, name in enumerate([*NAMES, *("long" * 8000 + str(number) for number in range(count))], 1000):
        if len(name) < 249:
            peer.model.topics[name] = [Partition(1, producers=[Producer(number, 0)])]
        peer.model.transactions[name] = Transaction(number, partitions={("hung", 0)})
        peer.model.topics["hung"][0].producers.append(Producer(number, 5))


def surrogates(*apis: str) -> Arrange:
    """UTF-8 that is none, in a topic's name or in a transactional id."""

    def arrange(peer: Peer, _count: int) -> None:
        peer.model.topics["bad@@@"] = [Partition(1, producers=[Producer(1000, 0)])]
        peer.model.transactions["bad@@@"] = Transaction(1000, partitions={("bad@@@", 0)})
        for api in apis:
            peer.replace[api] = bytes_of.substituted(b"bad@@@", b"bad\xed\xa0\x80")

    return arrange


def huge_messages(peer: Peer, count: int) -> None:
    def on_response(received: Received, response: Any) -> None:
        if received.api == "DescribeProducers":
            bytes_of.set_everywhere(response, "error_code", 87)
            bytes_of.set_everywhere(response, "error_message", "m\x1b[2J\n" * (count // 6))

    peer.on_response = on_response


def api_versions(entries: Mapping[int, tuple[int, int]] | None, *, repeat: int = 1) -> Arrange:
    """ApiVersions responses of version 0 with these entries: API -> (oldest, newest)."""

    def replace(frame: bytes) -> list[bytes]:
        rows = b"".join(
            key.to_bytes(2, "big") + oldest.to_bytes(2, "big", signed=True) + newest.to_bytes(2, "big", signed=True)
            for key, (oldest, newest) in (entries or {}).items()
        )
        count = len(entries or {}) * repeat
        # Version 3 and later: a compact array, each entry with tagged fields, then throttle time and tagged fields.
        tagged = b"".join(rows[at : at + 6] + b"\0" for at in range(0, len(rows), 6)) * repeat
        return [framed(frame[4:8] + b"\0\0" + bytes_of.varint(count + 1) + tagged + b"\0\0\0\0\0")]

    def arrange(peer: Peer, _count: int) -> None:
        peer.replace["ApiVersions"] = replace

    return arrange


def setting(field: str, value: object) -> Callable[[Received, Any], None]:
    return lambda _asked, answer: bytes_of.set_everywhere(answer, field, value)


def int64(value: int) -> Callable[[Received, Any], None]:
    return lambda _asked, answer: bytes_of.set_int64(answer, value)


def compressed_log(peer: Peer, megabytes: int) -> None:
    """Each partition of the log has one batch that unpacks into so much."""
    _with_log(peer, values_batch(0, bytes(megabytes * 1_000_000), compression=GZIP))


def noisy_log(peer: Peer, _count: int) -> None:
    """Each partition of the log has bytes that are no batch."""
    _with_log(peer, b"\xff" * 100_000)


def _with_log(peer: Peer, log: bytes) -> None:
    for node in peer.offered:
        peer.offered[node] |= FETCH
    for partition in peer.model.topics[STATE_TOPIC]:
        partition.log, partition.high_watermark = log, 1
