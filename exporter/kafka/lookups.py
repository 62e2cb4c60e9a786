"""Sends the single requests of commands: one transactional id, one partition's producers, all listings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.coordinators import describe, describe_ids, list_transactions
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason, MalformedResponseError, error_name
from exporter.kafka.messages import describe_producers, offset_fetch
from exporter.kafka.messages.raw_request import RawResponse
from exporter.kafka.state_partitions import probe, state_leaders, state_partition
from exporter.kafka.topology import Topology
from exporter.kafka.visibility.ids import id_visibility
from exporter.snapshot import (
    NO_LEADER,
    STATE_TOPIC,
    CoordinatorTransaction,
    IdVisibility,
    OneEntry,
    StateTopic,
    TopicPartition,
    TransactionState,
)
from exporter.snapshot.proof import FAILURES_IN_WORDS, IDS_HIDDEN, IDS_IN_WORDS


@dataclass
class KafkaRequestError(Exception):
    """A broker responded with an error. The sentence says what to do."""

    code: str
    """Kafka's name of the error."""
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def beyond_partitions(topology: Topology, topic: str, partition: int) -> str:
    """Says that a visible topic has fewer partitions; empty if it has this one."""
    if topology.row(topic, partition) is not None:
        return ""
    return f"partition {partition} of {topic} does not exist; the topic has {len(topology.rows_of(topic))}"


async def leader_of(client: ClusterClient, topic: str, partition: int) -> int:
    """The broker that leads a partition now. Raises KafkaRequestError if there is none."""
    topology = await client.topology((topic,))
    leader, _ = topology.leader_of(topic, partition)
    if leader != NO_LEADER:
        return leader
    code = topology.topic_errors.get(topic)
    if code is not None:
        is_hidden = code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        why = "does not exist or is not visible: needs READ on it" if is_hidden else "is not known now: run this again"
        raise KafkaRequestError(error_name(code), f"topic {topic} {why} ({error_name(code)})")
    if missing := beyond_partitions(topology, topic, partition):
        raise KafkaRequestError("UNKNOWN_TOPIC_OR_PARTITION", missing)
    raise KafkaRequestError("LEADER_NOT_AVAILABLE", f"{topic}-{partition} has no leader")


async def producers_of(
    client: ClusterClient, topic: str, partition: int, broker: int | None = None
) -> tuple[OneEntry, ...]:
    """Every producer entry of one partition, at its leader or at `broker`. Raises BrokerFault and KafkaRequestError."""
    leader = await leader_of(client, topic, partition)
    return await producers_at(client, leader if broker is None else broker, topic, partition)


async def producers_at(client: ClusterClient, broker: int, topic: str, partition: int) -> tuple[OneEntry, ...]:
    """Every producer entry of one partition at this broker, leader or not. Raises BrokerFault and KafkaRequestError."""
    request = describe_producers.request({topic: [partition]})
    error, entries = await client.request(broker, "DescribeProducers", request, _entries)
    if error != ErrorCode.NONE:
        hint = ": grant READ on the topic" if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
        raise KafkaRequestError(error_name(error), f"{topic}-{partition} cannot be read ({error_name(error)}){hint}")
    return entries


def _entries(response: RawResponse) -> tuple[int, tuple[OneEntry, ...]]:
    found = describe_producers.decode(response.body, version=response.version, every=True)
    if len(found.partition) != 1:
        raise MalformedResponseError(f"one partition was requested, and it has {len(found.partition)}")
    return int(found.error[0]), tuple(map(found.one, range(len(found))))


def altered_by_alert(name: str) -> str:
    """The end of a sentence about a group or an id that does not exist, if its name may come from an alert."""
    return " (an alert writes ? for all but ASCII letters, digits and -_.:/=+)" if "?" in name else ""


async def describe_id(client: ClusterClient, transactional_id: str) -> CoordinatorTransaction:
    """The coordinator's state of one transactional id. Raises BrokerFault and KafkaRequestError.

    Without DESCRIBE on `__transaction_state` every broker is asked, which needs only DESCRIBE on the id: FindCoordinator
    would make the topic where it does not exist.
    """
    topology = await client.topology((STATE_TOPIC,))
    rows = topology.rows_of(STATE_TOPIC)
    if not rows:
        return await _describe_at_any(client, transactional_id)
    coordinator = int(topology.leader[rows[state_partition(transactional_id, len(rows))]])
    if coordinator == NO_LEADER:
        raise KafkaRequestError("COORDINATOR_NOT_AVAILABLE", f"the coordinator of {transactional_id!r} is offline")
    return await describe_at(client, coordinator, transactional_id)


async def _describe_at_any(client: ClusterClient, transactional_id: str) -> CoordinatorTransaction:
    brokers = tuple(sorted(client.brokers or {}))
    answers = await client.gather(describe_ids(client, broker, [transactional_id]) for broker in brokers)
    found = {broker: answer.get(transactional_id) for broker, answer in zip(brokers, answers, strict=True)}
    coordinators = [broker for broker, answer in found.items() if isinstance(answer, CoordinatorTransaction)]
    if len(coordinators) > 1:
        raise KafkaRequestError(
            ErrorCode.NOT_COORDINATOR.name,
            f"brokers {' and '.join(map(str, coordinators))} are coordinators of {transactional_id!r}: run it again",
        )
    others = {ErrorCode.NOT_COORDINATOR.name, "coordinator_unanswered", None}
    for broker, answer in found.items():
        if answer not in others:
            return _read(answer, broker, transactional_id)
    silent = [broker for broker, answer in found.items() if answer != ErrorCode.NOT_COORDINATOR.name]
    if silent:
        return _read(None, silent[0], transactional_id)
    raise KafkaRequestError(
        ErrorCode.NOT_COORDINATOR.name,
        f"no broker is the coordinator of {transactional_id!r}: {STATE_TOPIC} does not exist, or its coordinator moves",
    )


_NO_COORDINATOR = (
    "no broker is the coordinator of group {} now: it moves, run it again; or no group has ever committed offsets here, "
    "and __consumer_offsets does not exist"
)


async def committed_by(client: ClusterClient, group: str) -> tuple[int, dict[TopicPartition, int]]:
    """The coordinator of a group, and the committed offsets there. Raises BrokerFault and KafkaRequestError.

    Every broker is asked: only the coordinator has them, and a group that it does not know has none.
    """
    topology = await client.topology(())
    request = offset_fetch.request([group], None)

    async def of_broker(broker: int) -> tuple[int, dict[TopicPartition, int]] | BrokerFault:
        try:
            return await client.request(broker, "OffsetFetch", request, offset_fetch.decode_one)
        except BrokerFault as fault:
            return fault

    brokers = sorted(topology.brokers)
    answers = await client.gather(of_broker(broker) for broker in brokers)
    responses = zip(brokers, answers, strict=True)
    codes = {answer[0]: (broker, answer[1]) for broker, answer in responses if not isinstance(answer, BrokerFault)}
    if ErrorCode.NONE in codes:
        return codes[ErrorCode.NONE]
    others = [code for code in codes if code != ErrorCode.NOT_COORDINATOR]
    if others:
        name = error_name(others[0])
        cure = "needs DESCRIBE on it" if others[0] == ErrorCode.GROUP_AUTHORIZATION_FAILED else "run this again"
        raise KafkaRequestError(name, f"the offsets of group {group} cannot be read: {cure} ({name})")
    for answer in answers:
        if isinstance(answer, BrokerFault):
            raise answer
    raise KafkaRequestError("NOT_COORDINATOR", _NO_COORDINATOR.format(group))


async def describe_at(client: ClusterClient, coordinator: int, transactional_id: str) -> CoordinatorTransaction:
    """The state of one transactional id at this broker. Raises BrokerFault and KafkaRequestError."""
    answers = await describe_ids(client, coordinator, [transactional_id])
    return _read(answers.get(transactional_id), coordinator, transactional_id)


def _read(
    answer: CoordinatorTransaction | str | None, coordinator: int, transactional_id: str
) -> CoordinatorTransaction:
    """Raises BrokerFault and KafkaRequestError."""
    if isinstance(answer, CoordinatorTransaction):
        return answer
    if answer == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND.name:
        raise KafkaRequestError(
            answer,
            f"coordinator {coordinator} does not know transactional id {transactional_id!r}: it is misspelt, or has "
            f"expired; the command list shows those that exist{altered_by_alert(transactional_id)}",
        )
    if answer == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name:
        raise KafkaRequestError(answer, f"transactional id {transactional_id!r} is not visible: grant DESCRIBE on it")
    if answer in {None, "coordinator_unanswered"}:
        raise BrokerFault(FaultReason.CONNECTION_LOST, f"coordinator {coordinator} did not respond")
    raise KafkaRequestError(str(answer), f"coordinator {coordinator} responded with {answer} for {transactional_id!r}")


async def list_all(
    client: ClusterClient, states: tuple[TransactionState, ...] = ()
) -> tuple[tuple[CoordinatorTransaction, ...], list[str]]:
    """Every coordinator's transactions in `states`, or in any, and what is missing, one sentence each.

    A coordinator that is loading, or that hides ids, returns a short list without an error: its partitions are probed.
    """
    leaders = await state_leaders(client, await client.topology())
    is_shown = leaders.topic is StateTopic.PRESENT
    brokers = leaders.brokers if is_shown else tuple(sorted(client.brokers or {}))
    listings = await list_transactions(client, brokers, states=states)
    gaps = [listing.failure for listing in listings if listing.failure is not None]
    failures = Counter(failure for failure in await probe(client, leaders.leaders) if failure is not None)
    gaps += [
        f"partitions of {STATE_TOPIC} that are {FAILURES_IN_WORDS[failure]}, whose "
        f"{'other ' if failure == IDS_HIDDEN else ''}transactional ids are not listed: {count} of {len(leaders.leaders)}"
        for failure, count in failures.items()
    ]
    visibility = await id_visibility(client, brokers)
    if visibility is not IdVisibility.ALL and not failures:
        gaps.append(f"transactional ids: {IDS_IN_WORDS[visibility]}")
    found = tuple(transaction for listing in listings for transaction in listing.transactions)
    if not is_shown:
        gaps.append(f"{STATE_TOPIC} does not exist or is not visible, so every broker was queried")
        found = await _at_their_coordinators(client, found)
    return found, gaps


async def _at_their_coordinators(
    client: ClusterClient, found: tuple[CoordinatorTransaction, ...]
) -> tuple[CoordinatorTransaction, ...]:
    """`found`, without what is listed by brokers that are not its coordinator: on some platforms every broker lists all."""
    times = Counter(transaction.transactional_id for transaction in found)
    described, _ = await describe(client, (each for each in found if times[each.transactional_id] > 1))
    owned = {each.transactional_id: each.coordinator for each in described if each.is_described}
    return tuple(each for each in found if owned.get(each.transactional_id, each.coordinator) == each.coordinator)
