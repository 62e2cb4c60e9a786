"""Holds one run: a cluster, the exporter's clocks, the requests, and the truth at each moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from exporter.kafka.errors import BrokerFault, FaultReason
from tests.verification.model import coordinator, rights
from tests.verification.model.answers import HOST, PORT, Answers
from tests.verification.model.cluster import Broker, Cluster
from tests.verification.model.rights import Rights
from tests.verification.model.truth import Standings, standings
from tests.verification.model.wire import body_of, read_metadata, read_offsets, read_producers

LATEST = -1
PRODUCERS, OFFSETS, METADATA, LIST, DESCRIBE, MARKERS, FENCE = 61, 2, 3, 66, 65, 27, 22
API_NAMES = {
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    16: "ListGroups",
    22: "InitProducerId",
    27: "WriteTxnMarkers",
    29: "DescribeAcls",
    32: "DescribeConfigs",
    55: "DescribeQuorum",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    66: "ListTransactions",
}


class Director(Protocol):
    """Decides what happens, and in which order the exporter's coroutines run."""

    def before(self, world: World, place: str) -> None:
        """Let events happen at this moment; `place` is the request that follows, or `pause`, `question`, `lock`."""

    def choose(self, count: int) -> int:
        """Which of `count` coroutines goes on."""


class Moment(NamedTuple):
    """What was true from here on, until the next moment."""

    standings: Standings
    committed: frozenset[int]
    topics: frozenset[tuple[str, int, int]]
    """(name, topic id, partitions)"""
    rights: Rights
    known_rights: frozenset[Rights]
    """The same as each broker knows them."""
    is_known_everywhere: bool
    """Every broker that runs knows all decisions."""
    is_progress_unknown: bool
    """Without DESCRIBE on the cluster, most responding brokers have contact with their controller again and are behind."""
    unknown_progress: frozenset[int]
    """The responding brokers that have contact with their controller and are behind, without DESCRIBE on the cluster."""


class Read(NamedTuple):
    """Something that a broker was asked for."""

    request: int
    """How many requests were sent before its response."""
    moment: int


class StableRead(NamedTuple):
    """A last stable offset that a broker returned."""

    read: Read
    offset: int
    log_start: int
    """Deleted records move the offset as well, up to the log's start: that shows the end of nothing."""


class World:
    """The state of one run. A request takes no time: time passes in pauses, in time-outs and by events."""

    def __init__(self, cluster: Cluster, director: Director, *, trace: Callable[[str], None] | None = None) -> None:
        self.cluster = cluster
        self.answers = Answers(cluster)
        self.director = director
        self.trace = trace
        self.wall_skew_ms = 0
        self.is_restart_due = False
        """The exporter is restarted before its next cycle."""
        self.running_s = 1000.0
        """The exporter's monotonic clock."""
        self.moments: list[Moment] = []
        self.reads: dict[tuple[str, int], list[Read]] = {}
        """(topic, partition) -> when a leader in its own view was queried for its producers."""
        self.stable_reads: dict[tuple[str, int], StableRead] = {}
        """(topic, partition) -> the last response about its last stable offset."""
        self.reads_of_end: dict[tuple[str, int], list[Read]] = {}
        """(topic, partition) -> each response about its last stable offset."""
        self.described: dict[str, list[int]] = {}
        """Transactional id -> the transactions in its descriptions, by serial."""
        self.last_listed_at = 0
        """The moment of the last list of transactions."""
        self.asked_coordinators: list[int] = [0]
        """For each request to a coordinator, how many requests were sent before its response."""
        self.is_reading = False
        """Some broker has been queried for producers in this cycle."""
        self.metadata_at = 0
        """The moment at which the metadata were read whose partitions the cycle then read."""
        self.metadata_from = -1
        """The broker that returned them."""
        self.lost_markers: set[tuple[str, int]] = set()
        """Partitions whose leader has lost a marker, within its leader epoch."""
        self.requests: list[int] = []
        """API keys in order."""
        self.next_request: tuple[int, Any, float] | None = None
        """(port, request, time-out in seconds) while the director decides what happens before it; None before a pause."""
        self.led_elsewhere_in = -1
        """The cycle or command in which the brokers' names have last led to another cluster."""
        self.cycles = 0
        """How many cycles and commands have begun."""
        self.failed = 0
        self.locked_from = 0
        """The moment at which a command last got the audit log's lock: its writes were judged after it."""
        self.on_write: Callable[[int, Any], None] | None = None
        """Called before each response to a request that writes: (API key, request)."""
        self.note()

    def clock(self) -> float:
        """The exporter's monotonic clock, in seconds."""
        return self.running_s

    def wall_clock(self) -> float:
        """The exporter's time of day, in seconds."""
        return (self.cluster.now_ms + self.wall_skew_ms) / 1000

    def pass_time(self, milliseconds: int) -> None:
        """For everybody."""
        self.cluster.now_ms += milliseconds
        self.running_s += milliseconds / 1000

    def sleep(self, seconds: float) -> None:
        """The exporter waits: time passes, things may happen, and coordinators send the markers that they owe."""
        self.pass_time(int(seconds * 1000))
        self.director.before(self, "pause")
        for topic, index, _ in self.cluster.image.each():
            replica = self.cluster.leader_replica(topic, index)
            if replica is not None:
                replica.high = None
        for name in tuple(self.cluster.clients):
            if coordinator.send_every_marker(self.cluster, name):
                self.note()

    def note(self) -> None:
        """Something has changed: note what is true now."""
        cluster = self.cluster
        committed = frozenset(serial for serial, outcome in cluster.outcomes.items() if outcome == "commit")
        topics = frozenset((name, each.topic_id, len(each.partitions)) for name, each in cluster.image.topics.items())
        is_known = self.is_known_everywhere()
        unknown, is_unknown = self._unknown_progress()
        known = frozenset(broker.view.rights for broker in cluster.brokers.values())
        self.moments.append(
            Moment(standings(cluster), committed, topics, cluster.image.rights, known, is_known, is_unknown, unknown)
        )

    def _unknown_progress(self) -> tuple[frozenset[int], bool]:
        """The brokers whose progress cannot be read, and whether they are most of those that respond."""
        image = self.cluster.image
        if rights.allows(image.rights, rights.DESCRIBE, rights.CLUSTER):
            return frozenset(), False
        responding = [broker for broker in self.cluster.brokers.values() if broker.is_up and not broker.is_silent]
        behind = [broker.id for broker in responding if broker.is_connected and broker.view.offset < image.offset]
        return frozenset(behind), 2 * len(behind) >= len(responding)

    def begin_cycle(self) -> int:
        """Forget what was read before; the moment at which the cycle begins."""
        self.reads.clear()
        self.is_reading = False
        self.stable_reads.clear()
        self.reads_of_end.clear()
        self.described.clear()
        self.asked_coordinators = [len(self.requests)]
        self.cycles += 1
        return len(self.moments) - 1

    def is_known_everywhere(self) -> bool:
        """True when every broker that runs knows all decisions."""
        cluster = self.cluster
        return all(broker.view.offset == cluster.image.offset for broker in cluster.brokers.values() if broker.is_up)

    def answer(self, port: int, request: Any, timeout_s: float) -> Any:
        """What the broker at `port` answers to `request`, after whatever happens first. Raises BrokerFault."""
        key = request.API_KEY
        self.next_request = port, request, timeout_s
        self.director.before(self, API_NAMES.get(key, "unknown"))
        self.next_request = None
        self.requests.append(key)
        if self.trace is not None:
            self.trace(f"  -> {API_NAMES.get(key, key)} to broker {port - PORT}{_asked(key, request)}")
        try:
            broker = _reached(self.cluster, port)
            if key in {MARKERS, FENCE} and self.on_write is not None:
                self.on_write(key, request)
            answer = self.answers.of(broker, request)
        except BrokerFault as fault:
            self.failed += 1
            if fault.reason is FaultReason.TIMED_OUT:
                self.pass_time(int(timeout_s * 1000))
            if self.trace is not None:
                self.trace(f"     <- {fault}")
            raise
        self._remember(key, broker.id, request)
        if key in {MARKERS, FENCE}:
            self.note()
        if self.trace is not None:
            self.trace(f"     <- {_shown_response(key, answer)}")
        return answer

    def _remember(self, key: int, broker: int, request: Any) -> None:
        """What was read, and at which moment."""
        read = Read(len(self.requests), len(self.moments) - 1)
        node = self.cluster.brokers[broker]
        if key == PRODUCERS:
            self.is_reading = True
            for topic, indexes in _named(request):
                for index in indexes:
                    partition = node.view.partition(topic, index)
                    is_leader = partition is not None and partition.leader == broker
                    if is_leader and rights.may_read(node.view.rights, topic):
                        self.reads.setdefault((topic, index), []).append(read)
        elif key == METADATA and not self.is_reading and read_metadata(body_of(request), request.API_VERSION) is None:
            self.metadata_at = read.moment
            self.metadata_from = broker
        elif key in {LIST, DESCRIBE}:
            self.last_listed_at = read.moment if key == LIST else self.last_listed_at
            self.asked_coordinators.append(read.request)
            if key == DESCRIBE:
                self._remember_descriptions(node, request)
        elif key == OFFSETS:
            self._remember_offsets(node, request, read)

    def _remember_descriptions(self, broker: Broker, request: Any) -> None:
        for name in request.transactional_ids:
            for held in broker.coordinating.values():
                if name in held.transactions:
                    self.described.setdefault(name, []).append(held.transactions[name].serial)

    def _remember_offsets(self, broker: Broker, request: Any, read: Read) -> None:
        is_stable, rows = read_offsets(body_of(request))
        for row in rows if is_stable else ():
            topic = broker.view.topics.get(row.partition[0])
            replica = None if topic is None else broker.logs.get((topic.topic_id, row.partition[1]))
            if replica is not None and row.timestamp_ms == LATEST:
                self.reads_of_end.setdefault(row.partition, []).append(read)
                self.stable_reads[row.partition] = StableRead(read, replica.stable, replica.start)


def _reached(cluster: Cluster, port: int) -> Broker:
    """The broker at a port. Raises BrokerFault."""
    broker = cluster.brokers.get(port - PORT)
    if broker is None or not broker.is_up:
        raise BrokerFault(FaultReason.UNREACHABLE, f"broker at {HOST}:{port} refuses connections")
    if broker.is_silent:
        raise BrokerFault(FaultReason.TIMED_OUT, f"broker at {HOST}:{port} does not answer")
    return broker


def _named(request: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    if hasattr(request, "_body"):
        return read_producers(body_of(request))
    return tuple((topic.name, tuple(topic.partition_indexes)) for topic in request.topics)


def _asked(key: int, request: Any) -> str:
    if key == PRODUCERS:
        return " for " + ", ".join(f"{topic}-{index}" for topic, indexes in _named(request) for index in indexes)
    if key == DESCRIBE:
        names = [name if len(name) < 20 else "(made-up id)" for name in request.transactional_ids]
        return " for " + ", ".join(names)
    return ""


def _shown_response(key: int, answer: Any) -> str:
    """The response in a few words."""
    if key == LIST:
        return _shown_listing(answer)
    if key == DESCRIBE:
        return "; ".join(
            f"error {int(row.error_code)}"
            if row.error_code
            else f"{row.transactional_id} {row.transaction_state} epoch {row.producer_epoch} "
            + ",".join(f"{topic.topic}-{index}" for topic in row.topics for index in topic.partitions)
            for row in answer.transaction_states
        )
    if key == PRODUCERS:
        return _shown_producers(answer)
    if key in {FENCE, 55}:
        return f"error {int(answer.error_code)}"
    return "answered"


def _shown_listing(answer: Any) -> str:
    from exporter.kafka.messages import list_transactions  # noqa: PLC0415 - only for a story

    listing = list_transactions.decode(answer.body)
    if listing.error:
        return f"error {listing.error}"
    rows = (
        f"{listing.transactional_id(number)} {listing.producer_id[number]} {listing.state_of(number).value}"
        for number in range(len(listing))
    )
    return "; ".join(rows) or "no ids"


def _shown_producers(answer: Any) -> str:
    from exporter.kafka.messages import describe_producers  # noqa: PLC0415 - only for a story

    read = describe_producers.decode(answer.body)
    rows = [
        f"{read.topics[read.topic[p]]}-{read.partition[p]}: {read.producer_id[i]} epoch {read.producer_epoch[i]} open "
        f"from {read.current_txn_start_offset[i]} last sequence {read.last_sequence[i]}"
        for i, p in enumerate(read.entry_partition.tolist())
    ]
    errors = [f"{read.topics[read.topic[p]]}-{read.partition[p]}: error {e}" for p, e in enumerate(read.error) if e]
    return "; ".join(rows + errors) or "nothing open"
