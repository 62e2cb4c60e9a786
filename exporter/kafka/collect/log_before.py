"""Reads the log before the start of a hang: what a broker has written there is older than the hang.

The timestamp of a producer's last write is its client's: a hang of this second may look ten years old. Markers, and records
of a topic with LogAppendTime, have the time of the broker that appended them.
"""

from __future__ import annotations

from collections.abc import MutableMapping

import numpy as np

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import read_piece
from exporter.kafka.collect.state import ExaminedEntries, Verification
from exporter.kafka.errors import BrokerFault
from exporter.kafka.messages.log_batches import batches_from
from exporter.snapshot import NO_LEADER, SecondRead, TransactionKey

SUSPECTS_MAX = 20
"""Read in one cycle; the others in later ones."""
OFFSETS_BEFORE = 500
PATIENCE_S = 2.0
MAX_TIMEOUT_MS = 15 * 60 * 1000
"""Kafka's default, where no broker has returned its `transaction.max.timeout.ms`."""

LogFacts = MutableMapping[TransactionKey, int | None]
"""Latest instant at which each suspect that was read is known not to have been open; None without one."""


async def read_before_starts(
    client: ClusterClient, verified: Verification, max_timeout_ms: int | None, now_ms: int, known: LogFacts
) -> dict[int, int | None]:
    """Entry -> the fact about it, of the unverified ones whose last write makes them late.

    Each log is read once; `known` has the facts from cycle to cycle.
    """
    examined = verified.examined
    old_ms = now_ms - (MAX_TIMEOUT_MS if max_timeout_ms is None else max_timeout_ms)
    last_ms, is_unchanged = examined.entries.last_timestamp, examined.second_read == int(SecondRead.UNCHANGED)
    is_due = verified.unverified & is_unchanged & (last_ms > 0) & (last_ms < old_ms)
    suspects = {entry: examined.key(entry) for entry in np.flatnonzero(is_due).tolist()}
    for key in known.keys() - set(suspects.values()):
        del known[key]
    due = [key for key in suspects.values() if key not in known][:SUSPECTS_MAX]
    await client.gather(_read_before(client, examined, key, known) for key in due)
    return {entry: known.get(key) for entry, key in suspects.items()}


async def _read_before(client: ClusterClient, examined: ExaminedEntries, key: TransactionKey, known: LogFacts) -> None:
    """One Fetch, or two where the log begins later or is dense. A broker that does not respond is asked again."""
    leader, _ = examined.topology.leader_of(key.topic, key.partition)
    if leader == NO_LEADER:
        return
    not_open_ms: int | None = None

    def take(records: bytes) -> None:
        nonlocal not_open_ms
        not_open_ms = not_open_at_ms(records, offset, key.start_offset)

    for offset in dict.fromkeys((max(key.start_offset - OFFSETS_BEFORE, 0), key.start_offset - 1)):
        if offset < 0 or not_open_ms is not None:
            break
        try:
            await read_piece(client, leader, (key.topic, key.partition), offset, take, patience_s=PATIENCE_S)
        except BrokerFault as fault:
            if not fault.is_lasting:
                return
    known[key] = not_open_ms


def not_open_at_ms(records: bytes, offset: int, start_offset: int) -> int | None:
    """The latest instant by a broker's clock in the batches from `offset` to before `start_offset`; None without one.

    Raises MalformedResponseError.
    """
    return max(
        (
            batch.max_timestamp_ms
            for batch in batches_from(records, offset)
            if batch.next_offset <= start_offset and (batch.is_control or batch.has_log_append_time)
        ),
        default=None,
    )
