"""Declares the exceptions of this room, and Kafka's error codes by name.

`client/fault_text.py` turns exceptions of client libraries into these; no other room names such an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from kafka.errors import for_code

from exporter.primitives import MalformedBytesError


class ErrorCode(IntEnum):
    """The error codes of Kafka's protocol that this exporter acts on or names (org.apache.kafka.common.protocol.Errors)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    KAFKA_STORAGE_ERROR = 56
    GROUP_ID_NOT_FOUND = 69
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    TRANSACTIONAL_ID_NOT_FOUND = 105


def error_name(code: int) -> str:
    """Kafka's name of an error code; kafka-python's for one that is not above, `ERROR_<code>` for one that neither has."""
    try:
        return ErrorCode(code).name
    except ValueError:
        name = str(for_code(code).message)
        return f"ERROR_{code}" if name == "UNKNOWN" else name


THROTTLES: Final = "throttles this client: the quota of its kafka.client.id, or of its user, is used up"
"""The end of a phrase about a broker."""


def refusal_of(broker: int, topic: str, code: int) -> str:
    """A phrase about a broker that does not let this login read a topic, or cannot."""
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"not authorized to read {topic} ({error_name(code)}): needs READ on it"
    if code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        return f"broker {broker} {THROTTLES}"
    return f"broker {broker} responded with {error_name(code)}"


class FaultReason(Enum):
    """Reason why a broker gave no usable response. The values are published."""

    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    CONNECTION_LOST = "connection_lost"
    AUTHENTICATION_FAILED = "authentication_failed"
    TLS_FAILED = "tls_failed"
    UNSUPPORTED_API = "unsupported_api"
    MALFORMED_ANSWER = "malformed_answer"
    RECEIVE_LIMIT = "receive_limit"
    UNKNOWN_BROKER = "unknown_broker"
    ANOTHER_CLUSTER = "another_cluster"
    REFUSED = "refused"


@dataclass
class BrokerFault(Exception):
    """A broker did not respond, or not usably. Affects only what was requested from it."""

    reason: FaultReason
    sentence: str
    """Sentence for the operator: which broker, what is wrong, what to do."""

    def __str__(self) -> str:
        return self.sentence

    @property
    def is_lasting(self) -> bool:
        """True for a missing right, or an API that this Kafka does not have: a later request gets the same response."""
        return self.reason in {FaultReason.UNSUPPORTED_API, FaultReason.REFUSED}


class ClusterUnavailableError(Exception):
    """No broker returned the cluster's metadata: the cycle has no data."""


class AnotherClusterError(ClusterUnavailableError):
    """The brokers that responded belong to another cluster than before."""


class ClientClosedError(Exception):
    """The client was closed while it was in use: the process is ending."""


class MalformedResponseError(MalformedBytesError):
    """Bytes that are not the expected response."""


def some_names(names: Sequence[str], *, shown_max: int = 3) -> str:
    """`a, b and 3 more`, for the sentence of a fault; empty without a name."""
    more = len(names) - shown_max
    return ", ".join(names[:shown_max]) + (f" and {more:,} more" if more > 0 else "")
