"""Declares the table of hostile brokers, in two sizes, with the allowed output and cost of `once`.

Bounds are several times what was measured on a slow, shared machine: they are passed by work that grows faster than what
was sent, not by noise. Memory is beyond that of `once` on the same cluster without an attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exporter.commands.status import ExitStatus
from tests.kafka.fake_broker import Fault
from tests.verification.hostile import attacks
from tests.verification.hostile import peer as bytes_of
from tests.verification.hostile.attacks import Arrange

INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
WHOLE: Final = frozenset({ExitStatus.ANSWERED})
INCOMPLETE: Final = frozenset({ExitStatus.INCOMPLETE})
NOT_RUN: Final = frozenset({ExitStatus.COULD_NOT_RUN})
EITHER: Final = WHOLE | INCOMPLETE


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of `once`."""

    cpu_s: float = 5.0
    mb: float = 60.0
    """Beyond an undisturbed one."""
    requests: int = 150
    printed_kb: int = 200
    """On standard output and standard error."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a shape is."""

    count: int = 1
    nodes: int = 2
    bounds: Bounds = Bounds()


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One attack."""

    name: str
    arrange: Arrange
    small: Size = Size()
    large: Size | None = None
    """None: it has no size."""
    status: frozenset[ExitStatus] = INCOMPLETE
    says: str = ""
    """A regular expression for what is printed."""
    proves: bool | None = None
    """Whether the hang of the undisturbed cluster is proved; None where that is chance."""
    deadline: str = "20s"
    output: str = "json"
    command: str = "once"


SHAPES: Final = (
    Shape(name="undisturbed", arrange=lambda _peer, _count: None, status=WHOLE, proves=True),
    Shape(
        name="topics with partition 999,999 alone",
        arrange=attacks.gaps,
        small=Size(count=20),
        large=Size(count=200, bounds=Bounds(cpu_s=20, mb=200)),
    ),
    Shape(
        name="100 MB announced by every broker",
        arrange=attacks.announced,
        small=Size(nodes=4),
        large=Size(nodes=20, bounds=Bounds(mb=100)),
        deadline="2s",
        says=r"\((?:timed_out|receive_limit)\)",
        proves=False,
    ),
    Shape(
        name="a byte at a time",
        arrange=attacks.replaced("DescribeProducers", lambda _: bytes_of.dripping(0.005)),
        deadline="1s",
        says=r"15 partitions are unread \(timed_out\)",
        proves=False,
    ),
    Shape(
        name="ids of other requests",
        arrange=attacks.on_requests(Fault.OTHER_ID, "DescribeProducers"),
        deadline="2s",
        says=r"Correlation IDs do not match",
        proves=False,
    ),
    Shape(
        name="NOT_COORDINATOR for ever",
        arrange=attacks.on_requests(16, "DescribeTransactions", "ListTransactions"),
        says=r"responded with NOT_COORDINATOR",
        proves=False,
    ),
    Shape(
        name="NOT_LEADER_OR_FOLLOWER for ever",
        arrange=attacks.on_requests(6, "DescribeProducers", "ListOffsets"),
        says=r"15 partitions are unread \(NOT_LEADER_OR_FOLLOWER\)",
        proves=False,
    ),
    Shape(
        name="leaders that move at every request",
        arrange=attacks.leaders_that_move,
        says=r"15 partitions are unread \(NOT_LEADER_OR_FOLLOWER\)",
        proves=False,
    ),
    Shape(
        name="throttled for 2^31-1 ms",
        arrange=attacks.on_responses(attacks.setting("throttle_time_ms", INT32_MAX)),
        deadline="2s",
        says=r"15 partitions are unread \(timed_out\)",
        proves=False,
    ),
    Shape(
        name="throttled for -2^31 ms",
        arrange=attacks.on_responses(attacks.setting("throttle_time_ms", -INT32_MAX - 1)),
        deadline="2s",
        status=WHOLE,
        proves=True,
    ),
    Shape(name="every int64 at its end", arrange=attacks.on_responses(attacks.int64(INT64_MAX)), status=EITHER),
    Shape(
        name="every int64 at its beginning", arrange=attacks.on_responses(attacks.int64(-INT64_MAX - 1)), status=EITHER
    ),
    Shape(
        name="clock of the controller at its end",
        arrange=attacks.on_responses(attacks.int64(INT64_MAX), "DescribeQuorum"),
        status=EITHER,
    ),
    Shape(
        name="brokers by name",
        arrange=attacks.many_brokers,
        small=Size(count=100),
        large=Size(count=5000, bounds=Bounds(cpu_s=40, mb=200, requests=500, printed_kb=10_000)),
        says=r"partitions are unread \(unreachable\)|scan.deadline passed",
    ),
    Shape(
        name="listed transactional ids",
        arrange=attacks.replaced("ListTransactions", bytes_of.many_listed),
        small=Size(count=10_000),
        large=Size(count=1_000_000, bounds=Bounds(cpu_s=20, mb=600)),
        status=EITHER,
        proves=True,
    ),
    Shape(
        name="open transactions in a response",
        arrange=attacks.many_open,
        small=Size(count=10_000, bounds=Bounds(mb=120, printed_kb=20_000)),
        large=Size(count=1_000_000, bounds=Bounds(cpu_s=60, mb=1200, printed_kb=100_000)),
        status=EITHER,
        says="hanging_no_transactional_id",
    ),
    Shape(
        name="topics with names of 249 characters",
        arrange=attacks.many_topics,
        small=Size(count=500),
        large=Size(count=50_000, bounds=Bounds(cpu_s=20, mb=400)),
        status=WHOLE,
        proves=True,
    ),
    Shape(
        name="partitions of __transaction_state",
        arrange=attacks.many_state_partitions,
        small=Size(count=500),
        large=Size(count=50_000, bounds=Bounds(cpu_s=40, mb=300, requests=1000)),
        status=WHOLE,
        proves=True,
    ),
    Shape(
        name="names of every kind",
        arrange=attacks.names,
        small=Size(count=3, bounds=Bounds(printed_kb=1000)),
        large=Size(count=100, bounds=Bounds(cpu_s=10, mb=200, printed_kb=20_000)),
        says=r"topics are not read, because Kafka does not accept their names",
        proves=True,
    ),
    Shape(
        name="names of every kind, in a table",
        arrange=attacks.names,
        small=Size(count=3),
        output="table",
        says=r"topics are not read, because Kafka does not accept their names",
    ),
    Shape(
        name="names of every kind, as metrics",
        arrange=attacks.names,
        small=Size(count=3),
        output="prometheus",
        says=r"topics are not read, because Kafka does not accept their names",
    ),
    Shape(
        name="names that are no UTF-8",
        arrange=attacks.surrogates("Metadata"),
        status=NOT_RUN,
        says=r"Metadata response of \d+ bytes",
    ),
    Shape(
        name="ids that are no UTF-8",
        arrange=attacks.surrogates("ListTransactions"),
        says=r"listed but not described: 1 transaction",
        proves=True,
    ),
    Shape(
        name="messages of an error",
        arrange=attacks.huge_messages,
        small=Size(count=30_000),
        large=Size(count=3_000_000, bounds=Bounds(cpu_s=10, mb=400)),
        says=r"15 partitions are unread \(INVALID_RECORD\)",
        proves=False,
    ),
    Shape(
        name="bytes that are missing",
        arrange=attacks.on_requests(Fault.TRUNCATED, "DescribeProducers", "ListTransactions"),
        says=r"ends too early",
        proves=False,
    ),
    Shape(
        name="bytes too many",
        arrange=attacks.on_requests(Fault.EXTENDED, "DescribeProducers", "ListTransactions"),
        says=r"DescribeProducers response of \d+ bytes: \d+ bytes after its end",
        proves=False,
    ),
    Shape(
        name="a header of another version",
        arrange=attacks.replaced("DescribeProducers", lambda _: bytes_of.without_header_tags),
        says=r"15 partitions are unread \(malformed_answer\)",
        proves=False,
    ),
    Shape(name="an error that Kafka has not", arrange=attacks.on_requests(32_767), says=r"ERROR_32767", proves=False),
    Shape(
        name="ApiVersions without APIs",
        arrange=attacks.api_versions(None),
        deadline="2s",
        status=NOT_RUN,
        says=r"does not offer Metadata",
    ),
    Shape(
        name="ApiVersions backwards",
        arrange=attacks.api_versions(dict.fromkeys(range(90), (9, -9))),
        deadline="2s",
        status=NOT_RUN,
        says=r"does not offer Metadata",
    ),
    Shape(
        name="ApiVersions of every version",
        arrange=attacks.api_versions(dict.fromkeys(range(90), (0, 32767))),
        deadline="2s",
        says=r"connection_lost",
        proves=False,
    ),
    Shape(
        name="ApiVersions a thousand times",
        arrange=attacks.api_versions(dict.fromkeys(range(90), (0, 0)), repeat=1000),
        deadline="2s",
        status=NOT_RUN,
        says=r"does not offer Metadata",
    ),
    Shape(
        name="transaction.max.timeout.ms of 5,000 digits",
        arrange=attacks.on_responses(attacks.setting("value", "9" * 5000), "DescribeConfigs"),
        status=WHOLE,
        proves=True,
        says=r"transaction_max_timeout_is_fallback\W+true",
    ),
    Shape(
        name="transaction.max.timeout.ms below zero",
        arrange=attacks.on_responses(attacks.setting("value", "-1"), "DescribeConfigs"),
        status=WHOLE,
        proves=True,
        says=r"transaction_max_timeout_is_fallback\W+true",
    ),
    Shape(
        name="transaction.max.timeout.ms that is no number",
        arrange=attacks.on_responses(attacks.setting("value", "NaN"), "DescribeConfigs"),
        status=WHOLE,
        proves=True,
        says=r"transaction_max_timeout_is_fallback\W+true",
    ),
    Shape(
        name="a transaction log that unpacks to so many MB",
        arrange=attacks.compressed_log,
        small=Size(count=50, bounds=Bounds(requests=400)),
        large=Size(count=800, bounds=Bounds(requests=400)),
        says="its records are compressed, and are skipped",
        command="timeouts",
    ),
    Shape(
        name="a transaction log of noise",
        arrange=attacks.noisy_log,
        says="no record batch at byte 0",
        command="timeouts",
    ),
)
