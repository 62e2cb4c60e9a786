"""`make soak`: three brokers, live producers, two exporters, a fault every few seconds for SOAK_MINUTES (20).

After each fault both exporters must come to the truth within `WHOLE_S`. Ends with a table, `build/soak.json`, and status 1
when anything was said or done that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from hangbench.kafka.broker import Broker
from hangbench.kafka.link import Link
from hangbench.kafka.maven import BrokersUnavailable
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from hangbench.kafka.ports import free_ports
from tests.real_brokers.exporting import Exporter, serving
from tests.verification.soak.churn import Churn
from tests.verification.soak.clock import WallClock
from tests.verification.soak.cluster import SoakCluster
from tests.verification.soak.disk import Disk, NoDiskError
from tests.verification.soak.faults import (
    DISK_FULL,
    DISK_NODE,
    FAULTS,
    GROWING,
    HUNG,
    HUNG_PARTITIONS,
    RECREATED,
    Ground,
)
from tests.verification.soak.resources import Resources
from tests.verification.soak.watcher import Truth, Watcher

KAFKA: Final = "4.3.1"
NODES: Final = 3
MINUTES: Final = float(os.environ.get("SOAK_MINUTES", "20"))
SEED: Final = int(os.environ.get("SOAK_SEED", "1"))
WHOLE_S: Final = 90.0
RESULT: Final = Path("build/soak.json")
PROPERTIES: Final[dict[str, str | int]] = {
    **HANGS_CAN_BE_PLANTED,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    # With one replica an acknowledged record can be lost, and with it a marker: hangs that the soak has not planted.
    "min.insync.replicas": 2,
    "transaction.state.log.min.isr": 2,
}
PACE: Final = {"scan__interval": "1s", "scan__deadline": "900ms", "kafka__request__timeout__ms": "700"}
LIVE: Final = Rhythm(hold_s=0.1, per_second=4, abort_share=0.2, stall_every=29, zombie_every=23, crash_every=0)
DESCRIPTORS_MORE_MAX: Final = 4
THREADS_MORE_MAX: Final = 2
MEMORY_MORE_MB_MAX: Final = 25.0
DISK_MB: Final = 256


@dataclass
class Tally:
    """What came of the faults, by their names."""

    recovery_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cycles: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    violations: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Faults that cannot be done here, and why."""


class Exporters:
    """One next to the brokers, one behind bad links; the first can be killed and started again."""

    def __init__(self, stack: ExitStack, cluster: SoakCluster, folder: Path, truth: Truth) -> None:
        self._bootstrap = cluster.bootstrap
        self._folder = folder
        self._own = stack.enter_context(ExitStack())
        self._restarting = False
        self.direct = self._start()
        (folder / "far").mkdir()
        self.clock = WallClock(folder / "clock")
        environment = self.clock.environment
        self.far: Exporter = stack.enter_context(
            serving(
                cluster.door, folder / "far", config_file=None, environment=environment, start=subprocess.Popen, **PACE
            )
        )
        self.watchers = (
            Watcher("direct", self.direct.url, truth, is_up=lambda: not self._restarting),
            Watcher("behind links", self.far.url, truth, is_up=lambda: True, clock=self.clock),
        )
        for watcher in self.watchers:
            stack.callback(watcher.close)

    def _start(self) -> Exporter:
        return self._own.enter_context(
            serving(self._bootstrap, self._folder, config_file=None, environment=None, start=subprocess.Popen, **PACE)
        )

    def restart(self) -> None:
        self._restarting = True
        self._own.close()
        self.direct = self._start()
        self.watchers[0].url = self.direct.url
        self.watchers[0].expect_restart()
        self._restarting = False

    def reload(self) -> None:
        for exporter in (self.direct, self.far):
            exporter.process.send_signal(signal.SIGHUP)


def main() -> int:
    """Run the faults, print the table; the exit status says whether all was true."""
    argparse.ArgumentParser(prog="python -m tests.verification.soak", description=__doc__).parse_args()
    chance = random.Random(SEED)
    truth, tally = Truth(), Tally()
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True)))
            link_ports = free_ports(NODES)
            advertised = dict(enumerate(link_ports, start=1))
            cluster = SoakCluster(KAFKA, nodes=NODES, properties=PROPERTIES, advertised_ports=advertised)
            disk = _disk_of(cluster.broker(DISK_NODE), stack, folder, tally)
            stack.enter_context(cluster)
            links = {node: Link(port, cluster.door_ports[node]) for node, port in advertised.items()}
            for link in links.values():
                stack.callback(link.close)
            _make_topics(cluster)
            workload = Workload(cluster.bootstrap, [("live", number) for number in range(4)], seed=SEED)
            for number in range(4):
                workload.add(f"live-{number}", LIVE)
            stack.callback(workload.stop)
            churn = Churn(cluster.bootstrap, RECREATED)
            stack.callback(churn.close)
            exporters = Exporters(stack, cluster, folder, truth)
            ground = Ground(
                cluster,
                links,
                truth,
                chance,
                reload=exporters.reload,
                restart=exporters.restart,
                disk=disk,
                clock=exporters.clock,
            )
            return _soak(ground, exporters, workload, tally)
    except BrokersUnavailable as failure:
        print(f"soak: {failure}", file=sys.stderr)
        return 1


def _disk_of(broker: Broker, stack: ExitStack, folder: Path, tally: Tally) -> Disk | None:
    """For its data, before it is formatted, in `folder` until the stack ends; None where that cannot be."""
    place = folder / "disk"
    place.mkdir()
    try:
        disk = Disk(place, megabytes=DISK_MB)
    except NoDiskError as refusal:
        tally.left_out[DISK_FULL] = f"{refusal} (root may)"
        return None
    stack.callback(disk.close)
    broker.directory.mkdir()
    (broker.directory / "data").symlink_to(place)
    return disk


def _make_topics(cluster: SoakCluster) -> None:
    cluster.topics.create("live", partitions=4)
    cluster.topics.create(HUNG, partitions=HUNG_PARTITIONS)
    cluster.topics.create(GROWING)
    cluster.topics.create(RECREATED)


def _soak(ground: Ground, exporters: Exporters, workload: Workload, tally: Tally) -> int:
    _until_whole(ground, exporters, "the beginning", tally)
    far = exporters.far.process.pid
    before, ends_at, began = Resources.of(far), time.monotonic() + MINUTES * 60, time.monotonic()
    faults = {name: fault for name, fault in FAULTS.items() if name not in tally.left_out}
    names, weights = list(faults), [weight for _, weight in faults.values()]
    while time.monotonic() < ends_at:
        (name,) = ground.chance.choices(names, weights)
        FAULTS[name][0](ground)
        ground.cluster.wait_until_serving()
        _until_whole(ground, exporters, name, tally)
    after = Resources.of(far)
    for watcher in exporters.watchers:
        tally.violations += watcher.violations
    tally.violations += [
        f"the exporter's {what} went from {old} to {new}"
        for what, old, new, more in (
            ("memory in MB", before.memory_mb, after.memory_mb, MEMORY_MORE_MB_MAX),
            ("threads", before.threads, after.threads, THREADS_MORE_MAX),
            ("descriptors", before.descriptors, after.descriptors, DESCRIPTORS_MORE_MAX),
        )
        if new - old > more
    ]
    tally.violations += [f"the workload: {failure}" for failure in workload.failures]
    _report(tally, exporters, workload, before, after, time.monotonic() - began)
    return 1 if tally.violations else 0


def _until_whole(ground: Ground, exporters: Exporters, name: str, tally: Tally) -> None:
    """Wait until a cycle of each exporter, begun since, saw everything, and called hanging what hangs and nothing else."""
    began, began_wall_s = time.monotonic(), time.time()  # clocks are right again
    slowest = 0
    for watcher in exporters.watchers:
        first = watcher.latest.cycles if watcher.latest is not None else 0
        while True:
            seen = watcher.latest
            if (
                seen is not None
                and seen.snapshot_s >= began_wall_s
                and seen.is_clean
                and set(seen.hanging) == ground.truth.hanging()
            ):
                slowest = max(slowest, seen.cycles - first)
                break
            if time.monotonic() - began > WHOLE_S:
                tally.violations.append(
                    f"{watcher.name}, {WHOLE_S:.0f} s after {name}: {seen}, true: {ground.truth.hanging()}"
                )
                break
            time.sleep(0.05)
    tally.recovery_s[name].append(time.monotonic() - began)
    tally.cycles[name].append(slowest)


def _report(
    tally: Tally, exporters: Exporters, workload: Workload, before: Resources, after: Resources, seconds: float
) -> None:
    counts = {name: len(tally.recovery_s[name]) for name in FAULTS}
    print(
        f"\n{sum(counts.values())} faults in {seconds / 60:.1f} minutes, Kafka {KAFKA}, {NODES} brokers, seed {SEED}\n"
    )
    print(f"{'fault':42}{'times':>7}{'recovery: median s':>30}{'longest s':>12}{'most cycles':>14}")
    for name in FAULTS:
        if counts[name]:
            took, cycles = tally.recovery_s[name], max(tally.cycles[name])
            print(f"{name:42}{len(took):7}{statistics.median(took):30.1f}{max(took):12.1f}{cycles:14}")
    for name, why in tally.left_out.items():
        print(f"left out: {name}: {why}")
    total = workload.ledger.total()
    print(f"\nworkload: {total}")
    for watcher in exporters.watchers:
        print(f"exporter {watcher.name}: {watcher.scrapes} scrapes, the slowest took {watcher.slowest_s:.2f} s")
    print(f"exporter behind links: {before} -> {after}")
    print(f"violations: {len(tally.violations)}")
    for violation in tally.violations[:50]:
        print(f"  {violation}")
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    result = {"kafka": KAFKA, "seed": SEED, "minutes": seconds / 60, "faults": counts, "violations": tally.violations}
    by_name = {"left_out": tally.left_out, "recovery_s": tally.recovery_s, "cycles": tally.cycles}
    RESULT.write_text(json.dumps({**result, **by_name}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
