"""Queries the coordinators in an order that makes their responses evidence about unverified transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.coordinators import coordinators_of, describe, list_transactions
from exporter.kafka.errors import BrokerFault
from exporter.kafka.leadership.confirm import Claim
from exporter.kafka.state_partitions import StateLeaders, claim_of, probe, state_leaders, state_partition
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.ids import id_visibility
from exporter.snapshot import (
    ACTIVE_STATES,
    CoordinatorProof,
    CoordinatorTransaction,
    IdVisibility,
    StatePartitionProof,
    StateTopic,
)

DESCRIPTIONS = 3
"""Times that all active transactions are described before the last read: who has completed one meanwhile is excluded."""


async def prove(
    client: ClusterClient,
    topology: Topology,
    *,
    topics: Collection[str],
    producer_ids: Collection[int] | None,
    read_again: Callable[[], Awaitable[None]] | None = None,
) -> CoordinatorProof:
    """Queries in an order that makes the responses evidence: probes, listing, descriptions, probes again.

    `producer_ids` and `topics` are those of unverified transactions; without `producer_ids` every active transaction is
    described, `DESCRIPTIONS` times, and after `read_again` once more. Their partitions must have been read before this, and
    must be read again after the descriptions; then the leaders of the state partitions must be confirmed.
    """
    before = await state_leaders(client, topology)
    brokers = coordinators_of(topology) if before.topic is not StateTopic.PRESENT else before.brokers
    visible_before = await id_visibility(client, brokers)
    probes_before = await probe(client, before.leaders)
    times = 1 if read_again is None else DESCRIPTIONS
    found = [await _ask(client, brokers, producer_ids, topics) for _ in range(times)]
    if read_again is not None:
        await read_again()
        found.append(await _ask(client, brokers, producer_ids, topics))
    probes_after = await probe(client, before.leaders)
    visible_after = await id_visibility(client, brokers)
    after = await state_leaders(client, topology)
    return CoordinatorProof(
        state_topic=before.topic,
        state_topic_id=before.topic_id,
        state_partitions=_state_partition_proofs(before, after, probes_before, probes_after),
        listing_failures=tuple(dict.fromkeys(chain.from_iterable(each.failures for each in found))),
        transactions=tuple(_with_state_partition(each, len(before.leaders)) for each in found[0].described),
        later=tuple(each.described for each in found[1:]),
        unclear_producer_ids=frozenset[int]().union(*(each.unclear for each in found)),
        hidden_topics=frozenset[str]().union(*(each.hidden_topics for each in found)),
        id_visibility=visible_after if visible_before is IdVisibility.ALL else visible_before,
    )


@dataclass(frozen=True, slots=True)
class _FoundTransactions:
    """Transactions of all coordinators, as they described them at one time."""

    described: tuple[CoordinatorTransaction, ...] = ()
    unclear: frozenset[int] = frozenset()
    """Producers that were listed and not described, or that two coordinators claim."""
    failures: tuple[tuple[int, str], ...] = ()
    """(broker id, reason) of coordinators whose list failed."""
    hidden_topics: frozenset[str] = frozenset()


async def _ask(
    client: ClusterClient, brokers: tuple[int, ...], producer_ids: Collection[int] | None, topics: Collection[str]
) -> _FoundTransactions:
    if producer_ids is None:
        listings = await list_transactions(client, brokers)
        listed = [transaction for response in listings for transaction in response.in_states(ACTIVE_STATES)]
    else:
        listings = await list_transactions(client, brokers, states=(), producer_ids=producer_ids)
        listed = [transaction for response in listings for transaction in response.of_producers(producer_ids)]
    beyond = frozenset(transaction.producer_id for transaction in listed[client.transactions_limit :])
    coordinators = {transaction.coordinator for transaction in listed}
    hidden = await _hidden_topics(client, coordinators, topics)
    described, unclear = await describe(client, listed[: client.transactions_limit])
    # Again: brokers learn a right at different times, and this one may have learned it after it described.
    hidden |= await _hidden_topics(client, coordinators, topics)
    return _FoundTransactions(
        described=described,
        unclear=unclear | beyond | _listed_twice(listed),
        failures=tuple((one.broker, one.failure) for one in listings if one.failure is not None),
        hidden_topics=hidden,
    )


def _with_state_partition(transaction: CoordinatorTransaction, partitions: int) -> CoordinatorTransaction:
    if partitions == 0:
        return transaction
    return replace(transaction, state_partition=state_partition(transaction.transactional_id, partitions))


def state_claims(proof: CoordinatorProof, producer_ids: Collection[int]) -> Iterator[Claim]:
    """The leaders of the state partitions on which the verdicts about these producers depend.

    All of them if no coordinator lists some producer id, otherwise those to which their transactional ids hash.
    """
    listed = {transaction.producer_id: transaction for transaction in proof.transactions}
    rests_on_all = any(producer_id not in listed for producer_id in producer_ids)
    owners = {listed[producer_id].state_partition for producer_id in producer_ids if producer_id in listed}
    for partition_proof in proof.state_partitions:
        if partition_proof.failure is None and (rests_on_all or partition_proof.partition in owners):
            yield claim_of(partition_proof, proof.state_topic_id)


def _listed_twice(listed: Iterable[CoordinatorTransaction]) -> frozenset[int]:
    """Producer ids that two coordinators claim: their partition of `__transaction_state` is moving."""
    count = Counter(transaction.producer_id for transaction in listed)
    return frozenset(producer_id for producer_id, times in count.items() if times > 1)


def _state_partition_proofs(
    before: StateLeaders,
    after: StateLeaders,
    probes_before: tuple[str | None, ...],
    probes_after: tuple[str | None, ...],
) -> tuple[StatePartitionProof, ...]:
    proofs = []
    for partition, (leader, epoch) in enumerate(before.leaders):
        failure = probes_before[partition] or probes_after[partition]
        moved = after.leaders[partition : partition + 1] != ((leader, epoch),) or after.topic_id != before.topic_id
        if moved and failure in {None, "not_coordinator"}:
            failure = "transaction_state_unknown" if after.topic is StateTopic.UNKNOWN else "coordinator_moved"
        proofs.append(StatePartitionProof(partition=partition, leader=leader, failure=failure, leader_epoch=epoch))
    return tuple(proofs)


async def _hidden_topics(client: ClusterClient, brokers: Iterable[int], topics: Collection[str]) -> frozenset[str]:
    """Returns the `topics` that some describing coordinator cannot show: it omits them from descriptions silently.

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
