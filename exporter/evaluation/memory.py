"""What must outlive a cycle: when a transaction was first seen, and what its coordinator last said of its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple


class TransactionKey(NamedTuple):
    """An open transaction on one partition, for as long as it stays open.

    The epoch is not part of it: a newer epoch that writes into a transaction left open does not move its start offset.
    """

    topic: str
    partition: int
    producer_id: int
    start_offset: int
    topic_id: str = ""
    """"" from brokers without topic ids, and in state files of versions before 0.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What is known of one open transaction from earlier cycles. Instants in milliseconds, by the cluster's clock."""

    first_seen_ms: int
    last_seen_ms: int
    producer_epoch: int
    coordinator_start_ms: int = -1
    """Start as its coordinator told while it owned the transaction at `producer_epoch`; -1 if it never did."""
    completing_since_ms: int = -1
    """Since when it has been seen in PrepareCommit or PrepareAbort; -1 when it is not."""
    superseded_epoch: int | None = None
    """The epoch of its records, where a proof found its id at a newer one without a transaction; not kept on disk."""
    completing_from_ms: int | None = None
    """The same instant as `completing_since_ms` by this process's monotonic clock; never carried over a restart."""
    watched_from_ms: int | None = None
    """When this process first saw it, by its monotonic clock: what is watched is never carried over a restart."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Open transactions remembered from earlier cycles of one cluster."""

    cluster_id: str = ""
    """Empty before the first cycle."""
    transactions: Mapping[TransactionKey, Remembered] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, key: TransactionKey) -> Remembered | None:
        """What is known of `key`, also from where its topic id was not known yet."""
        return self.transactions.get(key) or self.transactions.get(key._replace(topic_id=""))
