"""The daemon takes its locks in the order of the thread map: no two threads can wait for each other."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, cast

from exporter.daemon.baseline_file import BaselineFile
from exporter.daemon.daemon import Daemon
from exporter.daemon.log_follower import LogFollower
from exporter.daemon.reload import Reloaded, Reloader
from exporter.daemon.scheduler import Order, Orders
from exporter.history.writer import History
from exporter.kafka.state_log import LogPart
from exporter.transaction_log.report import LogPosition
from hangbench.waiting import until
from tests.baselines import DAY_MS, document
from tests.daemon.fleets import Scripts, fleet, healthy
from tests.daemon.logs import Log, Logs, commits
from tests.daemon.stand_ins import Reloads, Script
from tests.evaluation.builders import NOW_MS
from tests.threads import ARCHITECTURE, in_map, lock_order


class Traced:
    """A lock that notes which locks its thread holds when it takes this one."""

    held = threading.local()

    def __init__(self, name: str, lock: Any, pairs: set[tuple[str, str]]) -> None:
        self._name = name
        self._lock = lock
        self._pairs = pairs

    def __enter__(self) -> None:
        names: list[str] = self.held.__dict__.setdefault("names", [])
        self._pairs |= {(name, self._name) for name in names}
        self._lock.__enter__()
        names.append(self._name)

    def __exit__(self, *error: object) -> None:
        self.held.names.remove(self._name)
        self._lock.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


def traced(owner: Any, pairs: set[tuple[str, str]]) -> list[str]:
    """Replace every lock of the object; returns their names in the map."""
    kinds = (type(threading.Lock()), type(threading.RLock()), threading.Condition)
    names = []
    for attribute, value in list(vars(owner).items()):
        if isinstance(value, kinds):
            names.append(f"{type(owner).__name__}.{attribute}")
            setattr(owner, attribute, Traced(names[-1], value, pairs))
    return names


def test_locks_are_taken_in_the_order_of_the_map(tmp_path: Path) -> None:
    """Cycles, missed cycles, publications and reloads of two clusters with a history, a baseline and a transaction log."""
    orders, pairs = Orders(), set[tuple[str, str]]()
    settings = fleet(
        "one",
        "other",
        transaction_log__enabled="true",
        scan__interval="20ms",
        scan__deadline="10ms",
        history__directory=str(tmp_path / "history"),
    )
    path = tmp_path / "baselines.json"
    path.write_text(json.dumps(document()))
    history = History(settings.history)
    baseline = BaselineFile(path, (), age_ms_max=2 * DAY_MS, wall_clock=lambda: NOW_MS / 1000)
    followers: list[LogFollower] = []

    def follow(own: Any, before: LogPosition) -> LogFollower:
        log = Log([LogPart(tuple(commits(0, 0, 2)))], {0: 6})
        log.cluster_id = f"id-{len(followers)}"
        followers.append(
            LogFollower(
                own.kafka, own.transaction_log, counted_before=before, open_log=Logs(log), wall_clock=lambda: 7200.0
            )
        )
        return followers[-1]

    daemon = Daemon(
        settings,
        Scripts(one=Script(*[healthy("id-0")] * 500), other=Script(*[healthy("id-1")] * 500)),
        follow=follow,
        history=history,
        baseline=baseline,
        reloader=cast("Reloader", Reloads(Reloaded(settings))),
        orders=orders,
    )
    clusters = list(daemon.jobs.values())
    owners = (daemon.scheduler.timetable, daemon._publisher, history, baseline, *followers)
    owners += (*clusters, *(cluster._record for cluster in clusters))
    names = {name for owner in owners for name in traced(owner, pairs)}
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        until(lambda: daemon.scheduler.reloader is not None and history.status().rows_waiting > 2)
        orders.put(Order.RELOAD)
        clusters[0].missed()
        mapped = {pair for pair in lock_order(ARCHITECTURE.read_text(encoding="utf-8")) if names.issuperset(pair)}
        until(lambda: pairs >= mapped, patience_s=10, status=lambda: f"never nested: {mapped - pairs}")
    finally:
        orders.put(Order.STOP)
        thread.join(10)

    assert len(names) == 9, names
    assert pairs == mapped, f"write {pairs - mapped} into the last column of the thread map"


def test_the_order_of_the_locks_has_no_circle() -> None:
    """By all rows: a lock is never taken, over others, while it is held."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    after: dict[str, set[str]] = {}
    for first, second in lock_order(text):
        after.setdefault(first, set()).add(second)
    for _ in after:
        after = {lock: locks.union(*(after.get(each, set()) for each in locks)) for lock, locks in after.items()}

    assert len(after) >= 4
    assert [lock for lock, locks in after.items() if lock in locks] == []
    assert {lock for pair in lock_order(text) for lock in pair} <= {place.name for place in in_map(text)}
