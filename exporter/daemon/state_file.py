"""Reads and writes the state file: first-seen times, the position in the transaction log, the ids of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from exporter.daemon import kept_file
from exporter.evaluation.memory import (
    GroupKey,
    LastReading,
    Memory,
    RememberedBlock,
    RememberedTransaction,
    RememberedTransactions,
)
from exporter.evaluation.verdicts import StartSource
from exporter.files import MEGABYTE
from exporter.snapshot import (
    NULL,
    UNKNOWN_CLUSTER,
    UNKNOWN_OFFSET,
    ClusterIdentity,
    CompletingId,
    RememberedBytes,
    RememberedCompletion,
    RememberedCompletions,
    TransactionKey,
)
from exporter.transaction_log.report import LogPosition

FORMAT = "kafka-transaction-exporter state"
VERSION = 1
BYTES_MAX = 256 * MEGABYTE
"""A million open transactions take about 100 MB."""
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
_NUMBERED = 4
"""Topic, partition, producer id and start offset; the topic id comes last: files of versions before 0.3 have none."""
_STARTS = ("start_ms", "start_source", "not_open_at_ms", "clock_offset_ms")
"""Names of fields in a list of their own: older versions do not read it."""
_REMEMBERED_BYTES = tuple(each.name for each in fields(RememberedBytes))
_NOTHING = -1
"""Value in the file for an unknown instant."""
_OPTIONAL = frozenset({"coordinator_start_ms", "completing_since_ms", "start_ms", "start_source", "not_open_at_ms"})
_REMEMBERED = ("first_seen_ms", "last_seen_ms", "producer_epoch", "coordinator_start_ms", "completing_since_ms")


@dataclass(frozen=True, slots=True)
class SavedState:
    """The contents of the file."""

    memory: Memory = field(default_factory=Memory)
    log_position: LogPosition = field(default_factory=LogPosition)
    cluster: ClusterIdentity = UNKNOWN_CLUSTER
    """Cluster of the memory. A topic of it that is hidden after the restart is reported."""
    bootstrap: str = ""
    """The servers behind which this cluster was found; empty if unknown."""


def load(path: Path) -> SavedState:
    """The state in the file; empty if there is no file yet. Raises KeptFileError."""
    state = kept_file.load(path, state_of, kind="state file", bytes_max=BYTES_MAX)
    return SavedState() if state is None else state


def save(path: Path, state: SavedState) -> None:
    """Replaces the file atomically. Raises KeptFileError."""
    kept_file.save(path, document_of(state), bytes_max=BYTES_MAX)


def state_of(document: Any) -> SavedState:
    """The state in a document. Raises ValueError, KeyError or TypeError for anything else."""
    memory = _memory(document)
    cluster = ClusterIdentity(cluster_id=memory.cluster_id, topic_ids=_topics(document))
    memory = replace(memory, last_reading=_last_reading(document, cluster))
    bootstrap = document.get("bootstrap", "")  # older versions do not write it
    if not isinstance(bootstrap, str):
        raise TypeError("bootstrap is not a text")
    return SavedState(memory, _log_position(document), cluster, bootstrap)


def document_of(state: SavedState) -> dict[str, Any]:
    memory, position = state.memory, state.log_position
    examined = memory.transactions.examined
    return {
        "format": FORMAT,
        "version": VERSION,
        "cluster_id": memory.cluster_id,
        "transactions": [
            [*key[:_NUMBERED], *(_kept(remembered, name) for name in _REMEMBERED), key.topic_id]
            for key, remembered in zip(memory.transactions, examined, strict=False)
        ],
        "starts": [[_kept(remembered, name) for name in _STARTS] for remembered in examined],
        "last_reading": _reading_in(state),
        "blocked": [[*key[:3], block.since_ms, key.topic_id] for key, block in memory.blocked.items()],
        "blocked_at": [block.last_stable_offset for block in memory.blocked.values()],
        "completing": [
            [*identity, seen.start_ms, seen.since_ms]
            for identity, seen in memory.completing.items()
            if seen.start_ms is not None
        ],
        "held": [[*key, *astuple(seen)] for key, seen in memory.held.items()],
        "topics": list(state.cluster.topic_ids),
        "topic_ids": list(state.cluster.topic_ids.values()),
        "bootstrap": state.bootstrap,
        "transaction_log": {"cluster_id": position.cluster_id, "offsets": sorted(position.offsets.items())},
    }


def _kept(remembered: RememberedTransaction, name: str) -> int:
    """A clock that is set back must not make the next process see it later, nor this machine's clock."""
    value = getattr(remembered, name)
    value = _NOTHING if value is None else int(value)
    if name not in {"first_seen_ms", "clock_offset_ms"} or remembered.open_at_ms is None:
        return value
    return value - (remembered.first_seen_ms - remembered.open_at_ms)


def _memory(document: Mapping[str, Any]) -> Memory:
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise ValueError(f"format {document.get('format')!r}, version {document.get('version')!r}")
    transactions = {}
    starts = document.get("starts", [[]] * len(document["transactions"]))
    for (topic, partition, producer_id, start_offset, *rest), start in zip(
        document["transactions"], starts, strict=True
    ):
        remembered, (topic_id,) = rest[: len(_REMEMBERED)], rest[len(_REMEMBERED) :] or ("",)
        numbers = (partition, producer_id, start_offset, *remembered, *start)
        if not (isinstance(topic, str) and isinstance(topic_id, str)) or not all(
            type(number) is int and NULL < number <= most
            for number, most in zip(numbers, (INT32_MAX, *[INT64_MAX] * (len(numbers) - 1)), strict=True)
        ):
            raise ValueError("a transaction is not a topic and numbers")
        key = TransactionKey(topic, partition, producer_id, start_offset, topic_id)
        facts = dict(zip(_REMEMBERED, remembered, strict=True))
        if start:
            facts |= dict(zip(_STARTS, start, strict=True))
        facts |= {name: None for name in _OPTIONAL & facts.keys() if facts[name] < 0}
        if facts.get("start_source") not in {None, *StartSource}:
            raise ValueError(f"unknown source of a start: {facts['start_source']}")
        transactions[key] = RememberedTransaction(**facts)
    if not isinstance(document["cluster_id"], str):
        raise TypeError("cluster_id is not a string")
    return Memory(
        cluster_id=document["cluster_id"],
        transactions=RememberedTransactions.of(transactions),
        blocked=_blocked(document),
        completing=_completing(document),
        held=_held(document),
    )


def _blocked(document: Mapping[str, Any]) -> Mapping[GroupKey, RememberedBlock]:
    """Files of earlier versions have none, or no topic ids, or no offsets: those are in a list that older ones ignore."""
    blocked = {}
    rows = document.get("blocked", [])
    offsets = document.get("blocked_at", [UNKNOWN_OFFSET] * len(rows))
    for (group, topic, partition, since_ms, *more), offset in zip(rows, offsets, strict=True):
        (topic_id,) = more or ("",)
        are_texts = all(isinstance(each, str) for each in (group, topic, topic_id))
        if not (are_texts and all(type(each) is int for each in (partition, since_ms, offset))):
            raise ValueError("a blocked group is not a group, a partition, an instant and an offset")
        blocked[GroupKey(group, topic, partition, topic_id)] = RememberedBlock(since_ms, offset)
    return MappingProxyType(blocked)


def _completing(document: Mapping[str, Any]) -> RememberedCompletions:
    """Files of earlier versions have none."""
    completing = {}
    for transactional_id, producer_id, start_ms, since_ms in document.get("completing", []):
        if not isinstance(transactional_id, str) or not all(
            type(number) is int for number in (producer_id, start_ms, since_ms)
        ):
            raise ValueError("a completing transaction is not an id, a producer and two instants")
        completing[CompletingId(transactional_id, producer_id)] = RememberedCompletion(
            start_ms=start_ms, since_ms=since_ms
        )
    return MappingProxyType(completing)


def _held(document: Mapping[str, Any]) -> Mapping[TransactionKey, RememberedBytes]:
    """Files of earlier versions have none."""
    held = {}
    for topic, partition, producer_id, start_offset, topic_id, *numbers in document.get("held", []):
        names = isinstance(topic, str) and isinstance(topic_id, str)
        if not names or {*map(type, (partition, producer_id, start_offset, *numbers))} != {int}:
            raise ValueError("the bytes behind a transaction are not a topic and numbers")
        key = TransactionKey(topic, partition, producer_id, start_offset, topic_id)
        held[key] = RememberedBytes(**dict(zip(_REMEMBERED_BYTES, numbers, strict=True)))
    return MappingProxyType(held)


def _reading_in(state: SavedState) -> dict[str, Any] | None:
    """Returns the last reading, by the topics of the file."""
    reading = state.memory.last_reading
    if reading is None:
        return None
    topics = zip(reading.topics, reading.topic_ids, strict=True)
    partitions = dict(zip(topics, reading.partitions, strict=True))
    return {
        "at_ms": reading.at_ms,
        "partitions": [partitions.get(topic, 0) for topic in state.cluster.topic_ids.items()],
        "unread": sorted(reading.unread),
    }


def _last_reading(document: Mapping[str, Any], cluster: ClusterIdentity) -> LastReading | None:
    """Files of earlier versions have none."""
    found = document.get("last_reading")
    if found is None:
        return None
    at_ms, partitions, unread = found["at_ms"], tuple(found["partitions"]), found["unread"]
    numbers = (at_ms, *partitions, *(partition for _, partition in unread))
    if len(partitions) != len(cluster.topic_ids) or not all(type(number) is int for number in numbers):
        raise ValueError("the last reading is not an instant, and a number for each topic")
    return LastReading(
        at_ms=at_ms,
        topics=tuple(cluster.topic_ids),
        topic_ids=tuple(cluster.topic_ids.values()),
        partitions=partitions,
        unread=frozenset((str(topic), partition) for topic, partition in unread),
    )


def _topics(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Topic -> topic id. Files of versions before 0.3 have no topics, those before 0.5 no ids of them."""
    topics = document.get("topics", [])
    if not isinstance(topics, list):
        raise TypeError("the topics are not a list")
    topic_ids = document.get("topic_ids", [""] * len(topics))
    if not isinstance(topic_ids, list) or not all(isinstance(text, str) for text in [*topics, *topic_ids]):
        raise TypeError("the topics are not names and ids")
    return MappingProxyType(dict(zip(topics, topic_ids, strict=True)))


def _log_position(document: Mapping[str, Any]) -> LogPosition:
    """Files of versions before 0.2 have none."""
    if "transaction_log" not in document:
        return LogPosition()
    cluster_id, offsets = document["transaction_log"]["cluster_id"], dict(document["transaction_log"]["offsets"])
    if not isinstance(cluster_id, str) or not all(type(number) is int for pair in offsets.items() for number in pair):
        raise TypeError("the position in the transaction log is not a cluster and numbers")
    return LogPosition(cluster_id=cluster_id, offsets=MappingProxyType(offsets))
