"""Runs one schedule completely: the situation, the cycles or the command, what follows, and every lie found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from exporter.evaluation.verdicts import Evaluation, TransactionRow, Verdict
from tests.verification.model import events, rights
from tests.verification.model.checks import Cycle, Violation, violations_of
from tests.verification.model.cluster import Cluster
from tests.verification.model.directors import HEALED, Played, Schedule
from tests.verification.model.drive import INTERVAL_S, Exporter, rows_of
from tests.verification.model.events import Event
from tests.verification.model.liveness import unproved, unproved_by_offsets
from tests.verification.model.rights import Rights
from tests.verification.model.situations import Situation, make
from tests.verification.model.world import MARKERS, World
from tests.verification.model.writes import Watch

QUIET_CYCLES = 5
"""After the last event: what a cure may need some cycles for is judged in the last of them."""
QUIET_INTERVAL_S = 70.0


class Run(NamedTuple):
    """The result of one schedule."""

    schedule: Schedule
    violations: tuple[Violation, ...]
    verdicts: Counter[str]
    reasons: Counter[str]
    requests: Counter[int]
    places: tuple[str, ...]
    exempt: int
    """Writes that did harm in a window that cannot be closed."""


class _Runner:
    def __init__(self, situation: Situation, director: Played, trace: Callable[[str], None] | None) -> None:
        self.situation = situation
        self.director = director
        self.trace = trace
        self.world = make(situation, lambda cluster: World(cluster, director))
        self.world.trace = trace
        self.exporter = Exporter(self.world, situation.bootstrap)
        self.violations: list[Violation] = []
        self.verdicts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.seen: frozenset[str] = frozenset()
        self.known: Cluster | None = None
        """The cluster that the daemon has read first, from a cycle's beginning to its end."""
        self.has_read_parts = False
        """Some cycle has read parts of two clusters before any was read as a whole."""
        self.seen_there: frozenset[str] = frozenset()
        """Topics in the daemon's last cycle at that cluster, which no broker has hidden since."""
        self.read_in_whole: Cluster | None = None
        """The cluster of the last cycle; None if the names led elsewhere within it."""
        self.began = 0
        """The moment at which the last cycle began."""
        self.watch = Watch(self.world)

    def cycle(self, *, is_settled: bool = False) -> Evaluation | None:
        """One cycle of the daemon, checked."""
        evaluation = self._checked(self.exporter.cycle, self.seen, is_settled=is_settled, known=self.known)
        if evaluation is not None:
            self.known = self.known or self.read_in_whole
            self.seen = _topics_in(evaluation)
            if self.read_in_whole is self.known:
                self.seen_there = self.seen
        # What was read last is compared: a topic that some broker hid is not in it any more.
        self.seen_there &= self._shown_by_all()
        return evaluation

    def _shown_by_all(self) -> frozenset[str]:
        """Topics that no broker hid at any moment of this cycle."""
        known = frozenset[Rights]().union(*(moment.known_rights for moment in self.world.moments[self.began :]))
        return frozenset(
            topic
            for topic in self.seen
            if all(rights.allows(each, rights.DESCRIBE, rights.TOPIC, topic) for each in known)
        )

    def find_hanging(self) -> Evaluation | None:
        """The command, checked: it has seen nothing before."""
        return self._checked(self.exporter.find_hanging, frozenset(), is_settled=False)

    def _checked(
        self,
        look: Callable[[], Evaluation | None],
        seen: frozenset[str],
        *,
        is_settled: bool,
        known: Cluster | None = None,
    ) -> Evaluation | None:
        self.began = began = self.world.begin_cycle()
        before = self.world.cluster
        if self.trace is not None:
            self.trace(f"cycle at {self.world.cluster.now_ms}")
        evaluation = look()
        self.read_in_whole = before if before is self.world.cluster else None
        if evaluation is None:
            self.verdicts["(no cycle)"] += 1
            return None
        rows = rows_of(evaluation)
        self._count(rows)
        is_elsewhere = None not in {known, self.read_in_whole} and known is not self.read_in_whole
        # Until it has read one cluster as a whole, it may have read parts of two.
        self.has_read_parts |= self.known is None and self.read_in_whole is None
        is_elsewhere &= not self.has_read_parts and self._can_know_that_it_is_elsewhere(evaluation)
        self.blame(violations_of(Cycle(self.world, evaluation, rows, began, seen, is_settled, is_elsewhere)))
        return evaluation

    def _can_know_that_it_is_elsewhere(self, evaluation: Evaluation) -> bool:
        """By another cluster id, or by the ids of two topics: an operator may have made one of that name again."""
        has_another_id = self.known is not None and self.world.cluster.cluster_id != self.known.cluster_id
        shown = _topics_in(evaluation) & self.seen_there & self._shown_by_all()
        return has_another_id or len(shown) > 1

    def blame(self, lies: Iterable[Violation]) -> None:
        """Keep what was found."""
        for violation in lies:
            self.violations.append(violation)
            if self.trace is not None:
                self.trace(f"LIE {violation}")

    def _count(self, rows: tuple[TransactionRow, ...]) -> None:
        for row in rows:
            self.verdicts[row.verdict.label] += 1
            if row.inconclusive_reason is not None:
                self.reasons[row.inconclusive_reason.value] += 1
            if self.trace is not None:
                self.trace(
                    f"= {row.topic}-{row.partition} from {row.start_offset}, producer {row.producer_id} epoch "
                    f"{row.producer_epoch}: {row.verdict.label}, outcome {row.outcome_evidence.value} ({row.reason})"
                )

    def pause(self, seconds: float) -> None:
        self.world.pass_time(int(seconds * 1000))
        self.director.before(self.world, "pause")

    def script(self) -> None:
        look = self.find_hanging if self.situation.script in {"find", "abort", "plan"} else self.cycle
        if self.situation.script == "terminate":
            self._terminate()
            return
        wanted: tuple[TransactionRow, ...] = ()
        for number in range(self.situation.cycles):
            if number:
                self.pause(INTERVAL_S)
            evaluation = look()
            wanted = () if evaluation is None else self._wanted(rows_of(evaluation))
            if any(row.verdict.is_hanging or row.verdict is Verdict.COMPLETING for row in wanted):
                break
        if wanted:
            self.world.begin_cycle()
            self.watch.expect(wanted)
            self._write(lambda: self._recover(wanted))

    def _wanted(self, rows: tuple[TransactionRow, ...]) -> tuple[TransactionRow, ...]:
        """The transactions that the operator ends by the situation's command."""
        if self.situation.script == "abort":
            return rows[:1]
        if self.situation.script == "plan":
            return tuple(row for row in rows if row.verdict.is_hanging)
        if self.situation.script == "complete":
            return tuple(row for row in rows if row.verdict in {Verdict.COMPLETING, Verdict.STUCK_COMPLETING})[:1]
        return ()

    def _recover(self, wanted: tuple[TransactionRow, ...]) -> int:
        if self.situation.script == "plan":
            return self.exporter.abort_planned(wanted)
        if self.situation.script == "complete":
            return self.exporter.complete(wanted[0])
        return self.exporter.abort(wanted[0])

    def _terminate(self) -> None:
        name = self.situation.ids[0]
        self.world.begin_cycle()
        self._write(lambda: self.exporter.terminate(name))

    def _write(self, command: Callable[[], int]) -> None:
        def on_write(key: int, request: Any) -> None:
            self.blame(self.watch.marker(request) if key == MARKERS else self.watch.fence(request))

        self.world.on_write = on_write
        if self.trace is not None:
            self.trace(f"{self.situation.script} begins")
        status = command()
        if self.trace is not None:
            self.trace(f"{self.situation.script} ends with status {status}")
        self.world.on_write = None

    def ending(self, ending: str) -> None:
        """Quiet cycles, judged for what is missed as well."""
        if not ending:
            return
        if ending == HEALED:
            heal(self.world)
        for number in range(QUIET_CYCLES):
            self.pause(QUIET_INTERVAL_S)
            evaluation = self.cycle(is_settled=number == QUIET_CYCLES - 1)
            is_judged = number == QUIET_CYCLES - 1 and self.read_in_whole is self.known
            if is_judged and evaluation is not None:
                self.blame(unproved(self.world, rows_of(evaluation)))
                self.blame(unproved_by_offsets(self.world, rows_of(evaluation)))


def _topics_in(evaluation: Evaluation) -> frozenset[str]:
    partitions = evaluation.snapshot.partitions
    return frozenset(partitions.name(row)[0] for row in range(len(partitions)))


def run(situation: Situation, director: Played, ending: str = "", trace: Callable[[str], None] | None = None) -> Run:
    """One schedule, from the situation to the last check."""
    runner = _Runner(situation, director, trace)
    runner.script()
    director.stop()
    runner.ending(ending)
    return Run(
        schedule=Schedule(tuple(director.applied), director.order, ending),
        violations=tuple(runner.violations),
        verdicts=runner.verdicts,
        reasons=runner.reasons,
        requests=Counter(runner.world.requests),
        places=tuple(director.places),
        exempt=runner.watch.exempt,
    )


def heal(world: World) -> None:
    """All brokers back, all replicas in sync, all metadata delivered, everything loaded."""
    cluster = world.cluster
    for broker in cluster.brokers.values():
        for name in ("speak", "reconnect", "start"):
            events.happen_quietly(world, Event(name, (broker.id,)))
    for broker in cluster.brokers.values():
        events.happen_quietly(world, Event("deliver_metadata", (broker.id,)))
        cluster.deliver(broker)
        while events.happen_quietly(world, Event("go_on_loading", (broker.id,))):
            pass
    for topic, index, _ in tuple(cluster.image.each()):
        for name in ("high_watermark_catches_up", "follower_catches_up", "expand_in_sync"):
            while events.happen_quietly(world, Event(name, (topic, index))):
                pass
    world.note()
