"""Sends the requests about transactions to the transaction coordinators: ListTransactions and DescribeTransactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, error_name
from exporter.kafka.messages import describe_transactions as descriptions
from exporter.kafka.messages import list_transactions as listing
from exporter.kafka.messages.list_transactions import NOTHING_LISTED, ListedTransactions
from exporter.kafka.messages.raw_request import RawResponse
from exporter.kafka.topology import Topology
from exporter.snapshot import (
    ACTIVE_STATES,
    NO_LEADER,
    STATE_TOPIC,
    CoordinatorTransaction,
    TransactionState,
)

NOT_OFFERED = "transactions_not_offered"
"""Reason for a missing description from a broker older than Kafka 3.0."""


@dataclass(frozen=True, slots=True)
class Listing:
    """ListTransactions of one coordinator."""

    broker: int
    listed: ListedTransactions
    failure: str | None

    @property
    def transactions(self) -> tuple[CoordinatorTransaction, ...]:
        """Listed transactions, as objects."""
        return tuple(self._transaction(index) for index in range(len(self.listed)))

    def of_producers(self, producer_ids: Collection[int]) -> Iterator[CoordinatorTransaction]:
        """Yields the transactions of these producers, as objects: a coordinator may list a million others."""
        wanted = np.fromiter(producer_ids, dtype=np.int64, count=len(producer_ids))
        for index in np.flatnonzero(np.isin(self.listed.producer_id, wanted)).tolist():
            yield self._transaction(index)

    def in_states(self, states: Collection[TransactionState]) -> Iterator[CoordinatorTransaction]:
        """Yields the transactions in these states, as objects."""
        for index in np.flatnonzero(self.listed.is_in(states)).tolist():
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


def _listing(broker: int, answer: RawResponse) -> Listing:
    listed = listing.decode(answer.body)
    if listed.error != ErrorCode.NONE:
        return Listing(broker, NOTHING_LISTED, f"coordinator {broker} responded with {error_name(listed.error)}")
    return Listing(broker, listed, None)


async def describe(
    client: ClusterClient, listed: Iterable[CoordinatorTransaction]
) -> tuple[tuple[CoordinatorTransaction, ...], frozenset[int]]:
    """Adds epoch, timeout, start and partitions, from the coordinator that listed each transaction.

    Returns also the producer ids for which this failed, or whose id now names another producer: those stay as listed.
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
    try:
        return await client.request(
            broker, "DescribeTransactions", descriptions.request(wanted), partial(descriptions.decode, broker)
        )
    except BrokerFault as fault:
        is_offered = fault.reason is not FaultReason.UNSUPPORTED_API
        return dict.fromkeys(wanted, "coordinator_unanswered" if is_offered else NOT_OFFERED)


def coordinators_of(topology: Topology) -> tuple[int, ...]:
    """Brokers to query: the leaders of `__transaction_state`, or every broker if that topic is not visible."""
    rows = topology.rows_of(STATE_TOPIC)
    leaders = {int(topology.leader[row]) for row in rows} - {NO_LEADER}
    return tuple(sorted(leaders)) if len(rows) else tuple(sorted(topology.brokers))


def by_producer_id(transactions: Iterable[CoordinatorTransaction]) -> Mapping[int, CoordinatorTransaction]:
    """Producer id -> its transaction; the described one if there are two."""
    found: dict[int, CoordinatorTransaction] = {}
    for transaction in transactions:
        known = found.get(transaction.producer_id)
        if known is None or not known.is_described:
            found[transaction.producer_id] = transaction
    return found
