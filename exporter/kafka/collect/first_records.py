"""Reads the first record of an open transaction: its timestamp, and the names of its headers, never its key or value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka.errors import UnsupportedCodecError
from kafka.record.memory_records import MemoryRecords

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import read_piece
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError, MalformedResponseError
from exporter.kafka.lookups import KafkaRequestError, leader_of
from exporter.kafka.messages.log_batches import Batch, batches_from
from exporter.snapshot import TransactionKey

PATIENCE_S = 2.0
"""Seconds for each request: a cycle follows."""
COMPRESSED_BYTES_MAX = 65_536
"""Maximum size of a batch that is decompressed for its headers' names: a client could make a small one very large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRecord:
    """Data on the first record of a transaction."""

    timestamp_ms: int = -1
    """Time by the client's clock, or by the broker's (message.timestamp.type); -1 if the record could not be read."""
    headers: tuple[str, ...] = ()
    """Names in their order."""
    unread: str = ""
    """Reason why the record, or its headers, could not be read, as a phrase; empty if all was."""


async def first_records(client: ClusterClient, opened: Sequence[TransactionKey]) -> list[FirstRecord]:
    """Reads the first record of each transaction; one that cannot be read says why."""
    return list(await client.gather(_first_record(client, transaction) for transaction in opened))


async def _first_record(client: ClusterClient, opened: TransactionKey) -> FirstRecord:
    found: list[FirstRecord] = []

    def take(records: bytes) -> None:
        found.append(of_records(records, opened))

    try:
        leader = await leader_of(client, opened.topic, opened.partition)
        partition = (opened.topic, opened.partition)
        await read_piece(client, leader, partition, opened.start_offset, take, patience_s=PATIENCE_S)
        return found[0]
    except (BrokerFault, KafkaRequestError, ClusterUnavailableError) as fault:
        return FirstRecord(unread=str(fault))


def of_records(records: bytes, opened: TransactionKey) -> FirstRecord:
    """The record at the start offset. Raises MalformedResponseError."""
    for batch in batches_from(records, opened.start_offset):
        if batch.base_offset != opened.start_offset or batch.producer_id != opened.producer_id:
            return FirstRecord(unread="another one is at the start offset")
        if batch.is_compressed and batch.end - batch.start > COMPRESSED_BYTES_MAX:
            unread = "its headers were not read: its batch is compressed and large"
            return FirstRecord(timestamp_ms=batch.first_timestamp_ms, unread=unread)
        try:
            return FirstRecord(timestamp_ms=batch.first_timestamp_ms, headers=_headers(batch, records))
        except UnsupportedCodecError:
            unread = "its headers were not read: its batch is compressed, and the codec is not installed here"
            return FirstRecord(timestamp_ms=batch.first_timestamp_ms, unread=unread)
    return FirstRecord(unread="the leader returned none")


def _headers(batch: Batch, records: bytes) -> tuple[str, ...]:
    try:
        first = next(iter(MemoryRecords(records[batch.start : batch.end]).next_batch()))
        return tuple(name for name, _ in first.headers)
    except UnsupportedCodecError:
        raise
    except Exception as error:  # each codec has its own errors
        raise MalformedResponseError(f"the first record cannot be read: {error}") from error
