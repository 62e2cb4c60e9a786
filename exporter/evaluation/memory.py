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


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What is known of one open transaction from earlier cycles. Instants in milliseconds since 1970 UTC."""

    first_seen_ms: int
    last_seen_ms: int
    producer_epoch: int
    coordinator_start_ms: int = -1
    """Start as its coordinator told while it owned the transaction at `producer_epoch`; -1 if it never did."""
    completing_since_ms: int = -1
    """Since when it has been seen in PrepareCommit or PrepareAbort; -1 when it is not."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Open transactions remembered from earlier cycles of one cluster."""

    cluster_id: str = ""
    """Empty before the first cycle."""
    transactions: Mapping[TransactionKey, Remembered] = field(default_factory=lambda: MappingProxyType({}))
