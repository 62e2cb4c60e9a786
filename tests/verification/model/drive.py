"""Calls the exporter, in one place: a cycle of the daemon, a judgement of a command, an abort, a fence.

Time, waiting, questions and audit logs of the exporter's commands are replaced here by moments at which events happen.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any

from exporter.commands import abort_planned, consent, force_terminate
from exporter.commands import recover as recover_command
from exporter.commands.context import Context
from exporter.commands.examine import Examiner
from exporter.daemon import state_file
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Evaluation, Policy, TransactionRow
from exporter.kafka import cluster_client, topology
from exporter.kafka.client.connections import Address
from exporter.kafka.collect.collector import CollectOptions, Collector
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError
from exporter.kafka.messages import describe_producers, list_offsets, list_transactions, metadata
from exporter.publication.metrics import coverage
from exporter.recovery import plan_file
from exporter.recovery.partition import PartitionOnBrokers
from exporter.recovery.plan import Action
from exporter.snapshot import UNKNOWN_CLUSTER
from tests.verification.model.answers import HOST, PORT
from tests.verification.model.cluster import CLUSTER_ID
from tests.verification.model.connections import SimConnections
from tests.verification.model.world import World

POLICY = Policy()
COMPLETE_POLICY = Policy(stuck_after_ms=5_000)
"""That of `complete --stuck-after 5s`: without options it looks for 30 seconds, which adds only looks."""
OPTIONS = CollectOptions(deadline_s=60.0, request_timeout_s=5.0)
INTERVAL_S = 30.0
REMEMBERED_MAX = 20_000
WRITING_ROOMS = ("exporter.commands.", "exporter.recovery.")
(_COVERAGE_COMPLETE,) = (
    metric for metric in coverage.METRICS if metric.name == "kafka_transaction_exporter_coverage_complete"
)


class Exporter:
    """The exporter in front of one world: a daemon whose cycles follow each other, and commands.

    A command is a process of its own: its collector has seen nothing, and it has no memory.
    """

    def __init__(self, world: World, bootstrap: tuple[int, ...]) -> None:
        self.world = world
        self._addresses = tuple(Address(HOST, PORT + broker) for broker in bootstrap)
        self.collector = self._collector()
        self.memory = Memory()
        self.cluster = UNKNOWN_CLUSTER

    def _collector(self) -> Collector:
        return Collector(
            SimConnections(self.world),  # type: ignore[arg-type]
            self._addresses,
            OPTIONS,
            wall_clock=self.world.wall_clock,
            clock=self.world.clock,
        )

    def _restart(self) -> None:
        """What the state file does not keep is gone, and so is what the collector knew."""
        self.world.is_restart_due = False
        self.collector = self._collector()
        kept = json.loads(json.dumps(state_file.document_of(state_file.SavedState(self.memory))))
        self.memory = state_file.state_of(kept).memory
        self.collector.recall(self.cluster)

    def find_hanging(self) -> Evaluation | None:
        """`find-hanging` of every partition, with logs searched; None where it failed."""
        try:
            snapshot = self._collector().collect(seen_before=None, search_logs=True)
        except ClusterUnavailableError:
            return None
        return evaluate(snapshot, Memory(), POLICY)

    def cycle(self) -> Evaluation | None:
        """One cycle of the daemon; None where it failed."""
        if self.world.is_restart_due:
            self._restart()
        try:
            snapshot = self.collector.collect(seen_before=self.memory.seen)
        except ClusterUnavailableError:
            return None
        evaluation = evaluate(snapshot, self.memory, POLICY)
        self.memory = evaluation.memory
        self.cluster = snapshot.identity
        return evaluation

    def abort(self, row: TransactionRow) -> int:
        """`abort` of a transaction that a cycle has shown, confirmed with yes; the exit status."""
        return self._run(
            lambda: int(recover_command.recover(_context(row), self._means(POLICY), Action.ABORT, forced=None))
        )

    def complete(self, row: TransactionRow) -> int:
        """`complete` of the same."""
        means = self._means(COMPLETE_POLICY)
        return self._run(lambda: int(recover_command.recover(_context(row), means, Action.COMPLETE, forced=None)))

    def abort_planned(self, rows: tuple[TransactionRow, ...]) -> int:
        """`abort --plan-file`, of a plan that was written of these rows."""
        plan = plan_file.parse(plan_file.render_plan_file(CLUSTER_ID, self.world.cluster.now_ms, rows))

        def command() -> int:
            with replaced(abort_planned, "load", lambda _path: plan):
                return int(abort_planned.abort_planned(_context(None), self._means(POLICY)))

        return self._run(command)

    def _means(self, policy: Policy) -> recover_command.ClusterAccess:
        """Those of a new process."""
        collector = self._collector()
        judge = Examiner(collector, policy, sleep=self.world.sleep, clock=self.world.clock)
        return recover_command.ClusterAccess(
            judge=judge.judge, partition=lambda topic, partition: PartitionOnBrokers(collector, topic, partition)
        )

    def terminate(self, transactional_id: str) -> int:
        """`force-terminate`, confirmed with yes; the exit status."""
        options = argparse.Namespace(transactional_id=transactional_id, dry_run=False, yes=False, audit_log="audit")
        context = Context(options=options, state_folder=None, may_colour=False)
        handed: list[Callable[[Any], int]] = []

        def with_collector(_settings: Any, command: Callable[[Any], int]) -> int:
            handed.append(command)
            return command(self._collector())

        def command() -> int:
            with replaced(consent, "with_collector", with_collector):
                return int(force_terminate.run(context, SimpleNamespace()))  # type: ignore[arg-type]

        return self._run(command)

    def _run(self, command: Callable[[], int]) -> int:
        with _commands_in(self.world), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            try:
                return command()
            except (ClusterUnavailableError, BrokerFault, KafkaRequestError):
                return -1


def _context(row: TransactionRow | None) -> Context:
    """Of `abort` and `complete`; of a plan where there is no row."""
    options = argparse.Namespace(
        topic=None if row is None else row.topic,
        partition=None if row is None else row.partition,
        start_offset=None if row is None else row.start_offset,
        producer_id=None,
        producer_epoch=None,
        coordinator_epoch=None,
        dry_run=False,
        yes=False,
        force=None,
        audit_log="audit",
        plan_file="plan" if row is None else None,
        max_aborts=None,
    )
    return Context(options=options, state_folder=None, may_colour=False)


def rows_of(evaluation: Evaluation) -> tuple[TransactionRow, ...]:
    """What is published of each open transaction."""
    return all_rows(evaluation)


def is_complete(evaluation: Evaluation) -> bool:
    """What is published as `coverage_complete`."""
    publication: Any = SimpleNamespace(evaluation=evaluation)
    samples: Any = _COVERAGE_COMPLETE.samples(publication)
    return any(sample.value for sample in samples)


class _Audit:
    """An audit log without a file; waiting for it is a moment at which events happen."""

    def __init__(self, world: World) -> None:
        self._world = world

    def step(self, _step: str, **_facts: Any) -> None:
        """Nothing is kept."""

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Wait for the holder of the lock."""
        self._world.director.before(self._world, "lock")
        self._world.locked_from = len(self._world.moments) - 1
        yield


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Replaces a member for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def _commands_in(world: World) -> Iterator[None]:
    """Let commands run on the world's time, with its operator and its audit log."""

    def agrees(_options: Any, _audit: Any, _about: Any, _question: str = "") -> bool:
        world.director.before(world, "question")
        return True

    clock = SimpleNamespace(monotonic=world.clock, time=world.wall_clock, sleep=world.sleep)
    undo: list[tuple[Any, str, Any]] = []
    for module_name, module in tuple(sys.modules.items()):
        if module_name.startswith(WRITING_ROOMS):
            for name, value in (("audit_log", lambda *_: _Audit(world)), ("agrees", agrees), ("time", clock)):
                if hasattr(module, name):
                    undo.append((module, name, getattr(module, name)))
                    setattr(module, name, value)
            undo += _with_defaults(module, clock)
    try:
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


def _with_defaults(module: Any, clock: SimpleNamespace) -> list[tuple[Any, str, Any]]:
    """Put the world's time in the place of functions of `time` that are default arguments."""
    ours = {time.monotonic: clock.monotonic, time.time: clock.time, time.sleep: clock.sleep}
    undo = []
    for function in _functions_of(module):
        defaults = function.__kwdefaults__
        if defaults and any(callable(default) and default in ours for default in defaults.values()):
            undo.append((function, "__kwdefaults__", defaults))
            function.__kwdefaults__ = {
                name: ours.get(value, value) if callable(value) else value for name, value in defaults.items()
            }
    return undo


def _functions_of(module: Any) -> Iterator[Any]:
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type):
            yield from (member for member in vars(value).values() if hasattr(member, "__kwdefaults__"))
        elif hasattr(value, "__kwdefaults__"):
            yield value


class _Tokens:
    """Made-up ids that are the same in every run."""

    def __init__(self) -> None:
        self.count = 0

    def token_urlsafe(self, _bytes: int | None = None) -> str:
        """Looks like a random one: 32 characters."""
        self.count = (self.count * 6364136223846793005 + 1442695040888963407) % 2**64
        return f"{self.count:016x}{self.count ^ 0x5DEECE66D1234567:016x}"

    def token_bytes(self, count: int) -> bytes:
        """So many."""
        return random.Random(self.token_urlsafe()).randbytes(count)


TOKENS = _Tokens()


@contextmanager
def repeatable() -> Iterator[None]:
    """Take chance out of the exporter, whose probes have random names; and decode no bytes twice, which costs most time."""
    decoders = [(module, "decode") for module in (metadata, describe_producers, list_offsets, list_transactions)]
    decoders.append((list_offsets, "decode_columns"))
    with ExitStack() as undone:
        undone.enter_context(replaced(secrets, "token_urlsafe", TOKENS.token_urlsafe))
        undone.enter_context(replaced(secrets, "token_bytes", TOKENS.token_bytes))
        for module, name in decoders:
            undone.enter_context(replaced(module, name, _once_each(getattr(module, name))))
        undone.enter_context(replaced(cluster_client, "topology_of", _once_for_each_object(topology.topology_of)))
        yield


def _once_each(decode: Callable[..., Any]) -> Callable[..., Any]:
    """The same, remembering responses by their bytes: a decoder is a function of them and of its plain arguments."""
    known: dict[Any, Any] = {}

    def decoded(body: memoryview, *arguments: Any, like: Any = None, **named: Any) -> Any:  # noqa: ARG001 - only speed
        key = (bytes(body), arguments, tuple(named.items()))
        if key not in known:
            if len(known) > REMEMBERED_MAX:
                known.clear()
            known[key] = decode(body, *arguments, **named)
        return known[key]

    return decoded


def _once_for_each_object(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same for an argument that never changes after it was made: its identity determines the result."""
    known: dict[int, tuple[Any, Any]] = {}

    def remembered(argument: Any) -> Any:
        if id(argument) not in known:
            if len(known) > REMEMBERED_MAX:
                known.clear()
            known[id(argument)] = argument, function(argument)  # held, so that its id stays its own
        return known[id(argument)][1]

    return remembered
