"""Records transactions as their coordinators describe them, and relates them to open transactions on partitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from exporter.snapshot.partitions import TopicPartition


class TransactionState(Enum):
    """States of a transaction as coordinators write them (Kafka's TransactionState); any other name is UNKNOWN."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, name: str) -> TransactionState:
        """The state called `name`; UNKNOWN for a name that a later Kafka may add."""
        return _STATES.get(name, cls.UNKNOWN)

    @classmethod
    def numbered(cls, number: int) -> TransactionState:
        """The state with this number in `__transaction_state` (TransactionState.id); UNKNOWN for an unknown one."""
        return _NUMBERED[number] if 0 <= number < len(_NUMBERED) else cls.UNKNOWN


_STATES = {state.value: state for state in TransactionState}
_NUMBERED = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
)


ENDED_STATES = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


COMPLETING_STATES = frozenset(
    {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE}
)


ACTIVE_STATES = COMPLETING_STATES | {TransactionState.ONGOING}


TIMEOUT_MS_TWO_PHASE_COMMIT = 2**31 - 1
"""KIP-939: a prepared transaction has this timeout and never times out at the coordinator."""


class Ownership(Enum):
    """Relation of a coordinator's transaction to an open transaction of the same producer id on one partition."""

    UNLISTED = "unlisted"
    """No coordinator listed the producer id."""
    LISTED_ACTIVE = "listed_active"
    """Listed in an active state, and not described: its partitions are unknown."""
    NOT_IN_TRANSACTION = "not_in_transaction"
    """The coordinator's transaction has ended or does not include the partition."""
    OWNED = "owned"
    """Ongoing, same epoch, lists the partition."""
    COMPLETING = "completing"
    """The outcome is decided and the partition's marker is not written yet."""
    STALE_EPOCH = "stale_epoch"
    """Ongoing at a newer epoch with the partition listed: the marker of the new transaction would end the old records."""
    COORDINATOR_BEHIND = "coordinator_behind"
    """Ongoing, and the partition has seen a newer epoch than the coordinator: nothing can be concluded."""
    UNKNOWN_STATE = "unknown_state"
    """The coordinator returned a state that this version does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorTransaction:
    """A coordinator's data on one transactional id: a row of ListTransactions, and of DescribeTransactions if requested.

    A transaction that was only listed has `partitions` None, and then neither epoch, timeout nor start.
    """

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int
    """Broker id."""
    producer_epoch: int = -1
    timeout_ms: int = -1
    start_ms: int | None = None
    """Time of the start; None if the transaction has not begun."""
    partitions: frozenset[TopicPartition] | None = None
    state_partition: int = -1
    """The partition of `__transaction_state` to which the id hashes; -1 if it was not computed."""

    @property
    def is_described(self) -> bool:
        """True if the coordinator returned epoch, timeout, start and partitions."""
        return self.partitions is not None

    @property
    def has_hidden_partitions(self) -> bool:
        """True if all its partitions are hidden from this login: an Ongoing transaction has one at least."""
        return self.state is TransactionState.ONGOING and self.partitions == frozenset()

    @property
    def is_active(self) -> bool:
        """True while the coordinator has it Ongoing or is completing it."""
        return self.state in ACTIVE_STATES


def ownership(transaction: CoordinatorTransaction | None, partition: TopicPartition, producer_epoch: int) -> Ownership:
    """Relation of `transaction` to the open transaction of its producer id at `producer_epoch` on `partition`.

    TransactionVersion 2 bumps the epoch at Prepare (and a time-out once more), so a coordinator epoch that is ahead while
    it is completing is normal; ahead while Ongoing is not (KIP-890).
    """
    if transaction is None:
        return Ownership.UNLISTED
    if transaction.state in ENDED_STATES:
        return Ownership.NOT_IN_TRANSACTION
    if transaction.state not in ACTIVE_STATES:
        return Ownership.UNKNOWN_STATE
    if transaction.partitions is None:
        return Ownership.LISTED_ACTIVE
    if partition not in transaction.partitions:
        return Ownership.NOT_IN_TRANSACTION
    if transaction.state in COMPLETING_STATES:
        return Ownership.COMPLETING  # even behind the partition's epoch: then the partition always refuses its marker
    if transaction.producer_epoch < producer_epoch:
        return Ownership.COORDINATOR_BEHIND
    return Ownership.OWNED if transaction.producer_epoch == producer_epoch else Ownership.STALE_EPOCH
