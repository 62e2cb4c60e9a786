"""The data of one cycle: what it read from the cluster, and how much of it could be read.

Plain data and pure relations between data. It imports no other room, reads no clock and no socket. Data that grows with
partitions or producers is a column (numpy); data that stays small is a frozen record.

Instants are milliseconds since 1970 UTC, as Kafka writes them.
"""

from exporter.snapshot.completing import (
    NOTHING_COMPLETES,
    NOTHING_REMEMBERED,
    CompletingId,
    CompletingTransaction,
    Completions,
    MarkerFinding,
    PendingMarker,
    RememberedCompletion,
    RememberedCompletions,
)
from exporter.snapshot.coverage import (
    CLOCKS_AGREE_WITHIN_MS,
    LATEST_MS,
    NOTHING_HIDDEN,
    BrokerCoverage,
    ClockSource,
    CoordinatorCoverage,
    GroupOffset,
    Impact,
    MaxTimeout,
    PositionRead,
    Visibility,
)
from exporter.snapshot.disk import DiskSpace, LogDir, RememberedBytes, ReplicaSize
from exporter.snapshot.identity import CLUSTER_ID_VARIABLE, UNKNOWN_CLUSTER, ClusterIdentity
from exporter.snapshot.keys import NO_KEYS, TransactionKey, TransactionKeys, keys_of
from exporter.snapshot.open_transactions import HeldOffset, OpenTransactions, holds_back
from exporter.snapshot.outcome import EndMarker, EndMarkers
from exporter.snapshot.partitions import (
    NO_LEADER,
    OFFSETS_TOPIC,
    STATE_TOPIC,
    UNKNOWN_OFFSET,
    PartitionResult,
    Partitions,
    SecondRead,
    TopicPartition,
    is_covered,
    is_unread,
    shows,
    was_read,
)
from exporter.snapshot.preconditions import Acls, BrokerContact, DenyRule, Preconditions, ProofLevel, Provable, Resource
from exporter.snapshot.producers import (
    ENTRY_FIELDS,
    NO_PRODUCER_ID,
    NULL,
    BoolColumn,
    Int8Column,
    Int16Column,
    Int32Column,
    Int64Column,
    OneEntry,
    ProducerEntries,
)
from exporter.snapshot.proof import CoordinatorProof, IdVisibility, StatePartitionProof, StateTopic, Unconfirmed
from exporter.snapshot.transactions import (
    ACTIVE_STATES,
    COMPLETING_STATES,
    ENDED_STATES,
    TIMEOUT_MS_TWO_PHASE_COMMIT,
    CoordinatorTransaction,
    Ownership,
    TransactionState,
    ownership,
)
from exporter.snapshot.whole import Snapshot
