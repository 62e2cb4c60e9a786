"""Queries the transaction coordinators: the leaders of `__transaction_state`, each for the ids that hash to its partitions.

A response without an error is not evidence: a broker that has just restarted responds to ListTransactions with NONE and no
ids, and omits ids without DESCRIBE and the ids of a partition that is offline silently. So the exporter *probes* every
partition of `__transaction_state`: it describes a made-up transactional id that hashes to it at its leader. Kafka checks
authorization before existence, so TRANSACTIONAL_ID_NOT_FOUND proves both that the partition is loaded there and that ids
are visible (KIP-664; KafkaApis.handleDescribeTransactionsRequest).
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, ErrorCode, error_name
from exporter.kafka.leadership.confirm import Claim
from exporter.kafka.messages import list_transactions as listing
from exporter.kafka.messages.list_transactions import NOTHING_LISTED, ListedTransactions
from exporter.kafka.messages.raw_request import RawAnswer
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.ids import id_visibility
from exporter.snapshot import (
    ACTIVE_STATES,
    NO_LEADER,
    STATE_TOPIC,
    CoordinatorCoverage,
    CoordinatorProof,
    CoordinatorTransaction,
    IdVisibility,
    Int64Column,
    StatePartitionProof,
    StateTopic,
    TransactionState,
)

_PROBE_FAILURES = {
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: None,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional_ids_hidden",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "loading",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "loading",
    ErrorCode.NOT_COORDINATOR: "coordinator_moved",
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
    code = np.zeros(len(ids), dtype=np.uint32)
    for column in ids.T:
        code = code * np.uint32(31) + column
    signed = code.view(np.int32).astype(np.int64)
    return np.where(signed == np.iinfo(np.int32).min, 0, np.abs(signed)) % partitions


@dataclass(frozen=True, slots=True)
class Listing:
    """ListTransactions of one coordinator."""

    broker: int
    listed: ListedTransactions
    failure: str | None

    @property
    def transactions(self) -> tuple[CoordinatorTransaction, ...]:
        """All that are listed, as objects."""
        return tuple(self._transaction(index) for index in range(len(self.listed)))

    def of_producers(self, producer_ids: Collection[int]) -> Iterator[CoordinatorTransaction]:
        """Those of these producers, as objects: a coordinator may list a million others."""
        wanted = np.fromiter(producer_ids, dtype=np.int64, count=len(producer_ids))
        for index in np.flatnonzero(np.isin(self.listed.producer_id, wanted)).tolist():
            yield self._transaction(index)

    def _transaction(self, index: int) -> CoordinatorTransaction:
        return CoordinatorTransaction(
            transactional_id=self.listed.transactional_id(index),
            producer_id=int(self.listed.producer_id[index]),
            state=self.listed.state_of(index),
            coordinator=self.broker,
        )


async def list_transactions(
    client: ClusterClient,
    brokers: Iterable[int],
    *,
    states: Collection[TransactionState] = ACTIVE_STATES,
    producer_ids: Collection[int] = (),
) -> tuple[Listing, ...]:
    """The transactions of `brokers` in `states`, by default the active ones; no states mean any.

    With `producer_ids` only those of these producers.
    """

    async def ask(broker: int) -> Listing:
        # Filtered by state or by producer id, never by duration: that filter ignores the state.
        request = listing.request([state.value for state in states], producer_ids)
        try:
            return await client.request(broker, "ListTransactions", request, partial(_listing, broker))
        except BrokerFault as fault:
            return Listing(broker, NOTHING_LISTED, str(fault))

    return tuple(await client.gather(ask(broker) for broker in brokers))


def _listing(broker: int, answer: RawAnswer) -> Listing:
    listed = listing.decode(answer.body)
    if listed.error != ErrorCode.NONE:
        return Listing(broker, NOTHING_LISTED, f"coordinator {broker} responded with {error_name(listed.error)}")
    return Listing(broker, listed, None)


async def describe(
    client: ClusterClient, listed: Iterable[CoordinatorTransaction]
) -> tuple[tuple[CoordinatorTransaction, ...], frozenset[int]]:
    """The same transactions with epoch, timeout, start and partitions, from the coordinator that listed each.

    Also the producer ids for which this failed, or whose id now names another producer: those stay as listed.
    """
    by_broker: dict[int, dict[str, CoordinatorTransaction]] = defaultdict(dict)
    for transaction in listed:
        by_broker[transaction.coordinator][transaction.transactional_id] = transaction

    async def ask(broker: int) -> tuple[list[CoordinatorTransaction], set[int]]:
        mine = by_broker[broker]
        answers = await describe_ids(client, broker, mine)
        described = []
        unclear = set()
        for transactional_id, transaction in mine.items():
            answer = answers.get(transactional_id)
            if isinstance(answer, CoordinatorTransaction) and answer.producer_id == transaction.producer_id:
                described.append(answer)
            else:
                described.append(transaction)
                unclear.add(transaction.producer_id)
        return described, unclear

    results = await client.gather(ask(broker) for broker in by_broker)
    return (
        tuple(transaction for described, _ in results for transaction in described),
        frozenset(producer_id for _, unclear in results for producer_id in unclear),
    )


async def describe_ids(
    client: ClusterClient, broker: int, ids: Iterable[str]
) -> dict[str, CoordinatorTransaction | str]:
    """Transactional id -> its transaction, or the name of the error or fault in its place."""
    wanted = tuple(ids)
    request = DescribeTransactionsRequest(transactional_ids=wanted)
    try:
        return await client.request(broker, "DescribeTransactions", request, partial(_descriptions, broker))
    except BrokerFault:
        return dict.fromkeys(wanted, "coordinator_unanswered")


def _descriptions(broker: int, answer: Any) -> dict[str, CoordinatorTransaction | str]:
    return {
        row.transactional_id: _described(row, broker)
        if row.error_code == ErrorCode.NONE
        else error_name(row.error_code)
        for row in answer.transaction_states
    }


def _described(row: Any, broker: int) -> CoordinatorTransaction:
    return CoordinatorTransaction(
        transactional_id=row.transactional_id,
        producer_id=row.producer_id,
        state=TransactionState.of(row.transaction_state),
        coordinator=broker,
        producer_epoch=row.producer_epoch,
        timeout_ms=row.transaction_timeout_ms,
        start_time_ms=row.transaction_start_time_ms,
        partitions=frozenset((topic.topic, partition) for topic in row.topics for partition in topic.partitions),
    )


def coordinators_of(topology: Topology) -> tuple[int, ...]:
    """Brokers to query: the leaders of `__transaction_state`, or every broker if that topic is not visible."""
    rows = topology.rows_of(STATE_TOPIC)
    leaders = {int(topology.leader[row]) for row in rows} - {NO_LEADER}
    return tuple(sorted(leaders)) if len(rows) else tuple(sorted(topology.brokers))


def coverage_of(listings: Iterable[Listing]) -> tuple[CoordinatorCoverage, ...]:
    """Coordinators that were queried, and those that responded."""
    return tuple(CoordinatorCoverage(broker=response.broker, failure=response.failure) for response in listings)


async def prove(
    client: ClusterClient, topology: Topology, *, producer_ids: Collection[int], topics: Collection[str]
) -> CoordinatorProof:
    """Query in an order that makes the responses evidence: probes, listing, descriptions, probes again.

    `producer_ids` and `topics` are those of unverified transactions. Their partitions must have been read before this, and
    must be read again after it; then the leaders of the state partitions must be confirmed.
    """
    before = await _state_leaders(client, topology)
    brokers = coordinators_of(topology) if before.topic is not StateTopic.PRESENT else before.brokers
    visible_before = await id_visibility(client, brokers)
    probes_before = await _probe(client, before.leaders)
    listings = await list_transactions(client, brokers, states=(), producer_ids=producer_ids)
    listed = [transaction for response in listings for transaction in response.of_producers(producer_ids)]
    described, unclear = await describe(client, listed)
    hidden = await _hidden_topics(client, {transaction.coordinator for transaction in described}, topics)
    probes_after = await _probe(client, before.leaders)
    visible_after = await id_visibility(client, brokers)
    after = await _state_leaders(client, topology)
    return CoordinatorProof(
        state_topic=before.topic,
        state_topic_id=before.topic_id,
        state_partitions=_state_partition_proofs(before, after, probes_before, probes_after),
        listing_failures=tuple((one.broker, one.failure) for one in listings if one.failure is not None),
        transactions=tuple(_with_state_partition(it, len(before.leaders)) for it in described),
        unclear_producer_ids=unclear | _listed_twice(listed),
        hidden_topics=hidden,
        id_visibility=visible_after if visible_before is IdVisibility.ALL else visible_before,
    )


def _with_state_partition(transaction: CoordinatorTransaction, partitions: int) -> CoordinatorTransaction:
    if partitions == 0:
        return transaction
    return replace(transaction, state_partition=state_partition(transaction.transactional_id, partitions))


def state_claims(proof: CoordinatorProof, producer_ids: Collection[int]) -> Iterator[Claim]:
    """The leaders of the state partitions on which the verdicts about these producers depend.

    All of them if no coordinator lists some producer id, otherwise those to which their transactional ids hash.
    """
    listed = {it.producer_id: it for it in proof.transactions}
    rests_on_all = any(it not in listed for it in producer_ids)
    owners = {listed[it].state_partition for it in producer_ids if it in listed}
    for it in proof.state_partitions:
        if it.failure is None and (rests_on_all or it.partition in owners):
            yield Claim(
                topic=STATE_TOPIC,
                partition=it.partition,
                leader=it.leader,
                leader_epoch=it.leader_epoch,
                topic_id=proof.state_topic_id,
            )


def _listed_twice(listed: Iterable[CoordinatorTransaction]) -> frozenset[int]:
    """Producer ids that two coordinators claim: their partition of `__transaction_state` is moving."""
    count = Counter(transaction.producer_id for transaction in listed)
    return frozenset(producer_id for producer_id, times in count.items() if times > 1)


@dataclass(frozen=True, slots=True)
class _StateLeaders:
    topic: StateTopic
    leaders: tuple[tuple[int, int], ...]
    """(broker id, leader epoch) by partition of `__transaction_state`."""
    topic_id: str = ""

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted({leader for leader, _ in self.leaders} - {NO_LEADER}))


async def _state_leaders(client: ClusterClient, known: Topology) -> _StateLeaders:
    try:
        topology = await client.topology((STATE_TOPIC,))
    except ClusterUnavailableError:
        return _StateLeaders(StateTopic.UNKNOWN, ())
    if STATE_TOPIC in topology.first_row:
        rows = topology.rows_of(STATE_TOPIC)
        return _StateLeaders(
            StateTopic.PRESENT,
            tuple((int(topology.leader[row]), int(topology.leader_epoch[row])) for row in rows),
            topology.topic_id_of(STATE_TOPIC),
        )
    error = topology.topic_errors.get(STATE_TOPIC)
    if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not known.rows_of(STATE_TOPIC):
        return _StateLeaders(StateTopic.ABSENT, ())
    hidden = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return _StateLeaders(StateTopic.HIDDEN if hidden else StateTopic.UNKNOWN, ())


async def _probe(client: ClusterClient, leaders: tuple[tuple[int, int], ...]) -> tuple[str | None, ...]:
    """The result of each partition of `__transaction_state` for a made-up id: None if it is loaded and visible."""
    ids = probe_ids(len(leaders))
    by_broker: dict[int, list[str]] = defaultdict(list)
    for (leader, _), probe_id in zip(leaders, ids, strict=True):
        by_broker[leader].append(probe_id)
    asked = [broker for broker in by_broker if broker != NO_LEADER]
    answers: dict[str, CoordinatorTransaction | str] = dict.fromkeys(
        by_broker.get(NO_LEADER, ()), "state_partition_offline"
    )
    for answer in await client.gather(describe_ids(client, broker, by_broker[broker]) for broker in asked):
        answers.update(answer)
    return tuple(_probe_failure(answers.get(probe_id)) for probe_id in ids)


def _probe_failure(answer: CoordinatorTransaction | str | None) -> str | None:
    if answer == "state_partition_offline":
        return "state_partition_offline"
    for code, failure in _PROBE_FAILURES.items():
        if answer == code.name:
            return failure
    return "coordinator_unanswered"


def _state_partition_proofs(
    before: _StateLeaders,
    after: _StateLeaders,
    probes_before: tuple[str | None, ...],
    probes_after: tuple[str | None, ...],
) -> tuple[StatePartitionProof, ...]:
    proofs = []
    for partition, (leader, epoch) in enumerate(before.leaders):
        failure = probes_before[partition] or probes_after[partition]
        moved = after.leaders[partition : partition + 1] != ((leader, epoch),) or after.topic_id != before.topic_id
        if failure is None and moved:
            failure = "coordinator_moved"
        proofs.append(StatePartitionProof(partition=partition, leader=leader, failure=failure, leader_epoch=epoch))
    return tuple(proofs)


async def _hidden_topics(client: ClusterClient, brokers: Iterable[int], topics: Collection[str]) -> frozenset[str]:
    """Those of `topics` that some describing coordinator cannot show: it omits them from descriptions silently.

    A coordinator that does not respond hides them all.
    """
    names = tuple(sorted(topics))

    async def ask(broker: int) -> set[str]:
        try:
            seen = await client.topology(names, broker=broker)
        except BrokerFault:
            return set(names)
        return {name for name in names if name not in seen.first_row}

    return frozenset().union(*await client.gather(ask(broker) for broker in brokers))


def by_producer_id(transactions: Iterable[CoordinatorTransaction]) -> Mapping[int, CoordinatorTransaction]:
    """Producer id -> its transaction; the described one if there are two."""
    found: dict[int, CoordinatorTransaction] = {}
    for transaction in transactions:
        known = found.get(transaction.producer_id)
        if known is None or not known.is_described:
            found[transaction.producer_id] = transaction
    return found
