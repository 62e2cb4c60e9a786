"""Probes the partitions of `__transaction_state`: whether each is loaded at its leader, and ids that hash to it visible.

A response without an error is not evidence: a broker that has just restarted responds to ListTransactions with NONE and no
ids, and omits ids without DESCRIBE and the ids of a partition that is offline silently. So the exporter describes a made-up
transactional id that hashes to the partition at its leader. Kafka checks authorization before existence, so
TRANSACTIONAL_ID_NOT_FOUND proves both that the partition is loaded there and that ids are visible (KIP-664;
KafkaApis.handleDescribeTransactionsRequest).
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.coordinators import NOT_OFFERED, describe_ids
from exporter.kafka.errors import ClusterUnavailableError, ErrorCode
from exporter.kafka.leadership.confirm import Claim
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    NO_LEADER,
    STATE_TOPIC,
    CoordinatorTransaction,
    Int64Column,
    StatePartitionProof,
    StateTopic,
)

_OFFLINE, _UNANSWERED = "state_partition_offline", "coordinator_unanswered"
_PROBE_FAILURES = {
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND.name: None,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name: "transactional_ids_hidden",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name: "loading",
    ErrorCode.COORDINATOR_NOT_AVAILABLE.name: "loading",
    ErrorCode.NOT_COORDINATOR.name: "not_coordinator",
    NOT_OFFERED: NOT_OFFERED,
    _OFFLINE: _OFFLINE,
}


def state_partition(transactional_id: str, partitions: int) -> int:
    """The partition of `__transaction_state` that owns an id."""
    return java_hash_partition(transactional_id, partitions)


def java_hash_partition(name: str, partitions: int) -> int:
    """Kafka's hash for an id or a group: Utils.abs(String.hashCode) modulo."""
    code = 0
    units = name.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - 2**32 if code >= 2**31 else code
    # Utils.abs: the smallest int has no positive counterpart and becomes 0.
    return (0 if signed == -(2**31) else abs(signed)) % partitions


def probe_ids(partitions: int) -> tuple[str, ...]:
    """One random, never used transactional id per partition of `__transaction_state`.

    Random from the first character on, so that no prefixed ACL is likely to select them.
    """
    found = [""] * partitions
    missing = np.ones(partitions, dtype=np.bool_)
    while np.any(missing):
        candidates = _random_ids(max(partitions, _PROBES_AT_ONCE_MIN))
        where, index = np.unique(_partitions_of(candidates, partitions), return_index=True)
        new = missing[where]
        for partition, row in zip(where[new].tolist(), index[new].tolist(), strict=True):
            found[partition] = candidates[row].tobytes().decode()
        missing[where] = False
    return tuple(found)


_ID_CHARACTERS = 32
_PROBES_AT_ONCE_MIN = 64
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)


def _random_ids(count: int) -> npt.NDArray[np.uint8]:
    """(count, 32) characters."""
    random = np.frombuffer(secrets.token_bytes(count * _ID_CHARACTERS), dtype=np.uint8)
    return _ALPHABET[random % len(_ALPHABET)].reshape(count, _ID_CHARACTERS)


def _partitions_of(ids: npt.NDArray[np.uint8], partitions: int) -> Int64Column:
    """(N,) the result of `java_hash_partition` for each of `ids`."""
    return partitions_of_hashes(java_hashes(ids), partitions)


def java_hashes(names: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """(N,) the bits of Java's String.hashCode for each row of ASCII characters."""
    code = np.zeros(len(names), dtype=np.uint32)
    for column in names.T:
        code = code * np.uint32(31) + column
    return code


def partitions_of_hashes(hashes: npt.NDArray[np.uint32], partitions: int) -> Int64Column:
    """(N,) Kafka's Utils.abs of each hash, modulo."""
    signed = hashes.view(np.int32).astype(np.int64)
    return np.where(signed == np.iinfo(np.int32).min, 0, np.abs(signed)) % partitions


@dataclass(frozen=True, slots=True)
class StateLeaders:
    """The coordinators, as the metadata names them."""

    topic: StateTopic
    leaders: tuple[tuple[int, int], ...]
    """(broker id, leader epoch) by partition of `__transaction_state`."""
    topic_id: str = ""

    @property
    def brokers(self) -> tuple[int, ...]:
        """Returns the leaders of the partitions that have one."""
        return tuple(sorted({leader for leader, _ in self.leaders} - {NO_LEADER}))


async def state_leaders(client: ClusterClient, known: Topology) -> StateLeaders:
    """The leaders now; `known` is the cycle's metadata, in which the topic may have been visible."""
    try:
        topology = await client.topology((STATE_TOPIC,))
    except ClusterUnavailableError:
        return StateLeaders(StateTopic.UNKNOWN, ())
    if STATE_TOPIC in topology.first_row:
        rows = topology.rows_of(STATE_TOPIC)
        return StateLeaders(
            StateTopic.PRESENT,
            tuple((int(topology.leader[row]), int(topology.leader_epoch[row])) for row in rows),
            topology.topic_id_of(STATE_TOPIC),
        )
    error = topology.topic_errors.get(STATE_TOPIC)
    if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not known.rows_of(STATE_TOPIC):
        return StateLeaders(StateTopic.ABSENT, ())
    hidden = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return StateLeaders(StateTopic.HIDDEN if hidden else StateTopic.UNKNOWN, ())


async def probe(client: ClusterClient, leaders: tuple[tuple[int, int], ...]) -> tuple[str | None, ...]:
    """The result of each partition of `__transaction_state` for a made-up id: None if it is loaded and visible."""
    ids = (client.probe_ids or probe_ids)(len(leaders))
    by_broker: dict[int, list[str]] = defaultdict(list)
    for (leader, _), probe_id in zip(leaders, ids, strict=True):
        by_broker[leader].append(probe_id)
    asked = [broker for broker in by_broker if broker != NO_LEADER]
    answers: dict[str, CoordinatorTransaction | str] = dict.fromkeys(by_broker.get(NO_LEADER, ()), _OFFLINE)
    for answer in await client.gather(describe_ids(client, broker, by_broker[broker]) for broker in asked):
        answers.update(answer)
    return tuple(_probe_failure(answers.get(probe_id)) for probe_id in ids)


def _probe_failure(answer: CoordinatorTransaction | str | None) -> str | None:
    return _PROBE_FAILURES.get(answer, _UNANSWERED) if isinstance(answer, str) else _UNANSWERED


def coordinator_claim(topology: Topology, transactional_id: str) -> Claim:
    """The partition of `__transaction_state` that owns an id, with its leader; NO_LEADER if it has none.

    Partition -1 of NO_LEADER where the metadata does not show the topic.
    """
    partitions = len(topology.rows_of(STATE_TOPIC))
    home = state_partition(transactional_id, partitions) if partitions else -1
    return Claim.of(topology, STATE_TOPIC, home)


def other_coordinator(transaction: CoordinatorTransaction, claim: Claim) -> str | None:
    """Returns how the metadata contradict the broker that describes `transaction`; None if it leads as in `claim`."""
    if transaction.coordinator == claim.leader:
        return None
    if claim.partition < 0:
        return f"{STATE_TOPIC} is not visible (needs DESCRIBE on it): the coordinator of its id is not confirmed"
    if claim.leader == NO_LEADER:
        return "the metadata names no coordinator for its transactional id"
    return (
        f"broker {transaction.coordinator} describes the transaction, but its coordinator in the metadata is broker "
        f"{claim.leader}"
    )


def claim_of(proof: StatePartitionProof, topic_id: str) -> Claim:
    """The leader that was probed."""
    return Claim(
        topic=STATE_TOPIC,
        partition=proof.partition,
        leader=proof.leader,
        leader_epoch=proof.leader_epoch,
        topic_id=topic_id,
    )
