"""Two hundred clusters and ten silent ones in one real `serve`, beside a `serve` for one cluster each.

Clusters have 5 to 50,000 partitions in equal ratios, and replay. What one process for each cluster would take is computed
from four sizes: a fixed part and a part for each partition.
"""

from __future__ import annotations

import http.client
import re
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.contestants import cpu_ms, peak_mb
from benchmarks.peers import PYTHON
from benchmarks.scrapes import _scrape
from hangbench.kafka.ports import free_ports

CLUSTERS: Final = 200
SILENT: Final = 10
SMALLEST: Final = 5
LARGEST: Final = 50_000
LONE: Final = (5, 500, 5_000, 50_000)
LONE_INTERVAL_S: Final = 5
LONE_CYCLES: Final = 6
INTERVAL_S: Final = 30
INTERVALS: Final = 3
SCRAPE_PAUSE_S: Final = 0.05
SELF: Final = "kafka_transaction_exporter_"


def measure() -> dict[str, Any]:
    """What the fleet took, and what one process for each cluster would."""
    sizes = np.geomspace(SMALLEST, LARGEST, CLUSTERS).astype(int).tolist()
    with brokers(LONE) as addresses:
        lone = [_lone(address) for address in addresses]
    per_partition, fixed = np.polyfit([size for size, _ in lone], [cpu for _, cpu in lone], 1)
    with brokers(sizes) as addresses:
        fleet = _fleet(addresses)
    expected_ms = sum(fixed + per_partition * partitions for partitions in fleet.pop("sizes"))
    return {
        "clusters": CLUSTERS,
        "silent": SILENT,
        "interval_s": INTERVAL_S,
        "lone": [{"partitions": size, "cpu_ms": cpu} for size, cpu in lone],
        "expected_cpu_ms": expected_ms,
        "cpu_ratio": fleet["cpu_ms"] / expected_ms,
        "memory_limit_mb": 60 + fleet["partitions"] / 1000,
        **fleet,
    }


@contextmanager
def brokers(sizes: Sequence[int]) -> Iterator[list[str]]:
    """Addresses of clusters of these sizes."""
    words = [str(size) for size in sizes]
    process = subprocess.Popen(
        [*PYTHON, "benchmarks.fleet_brokers", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield [f"127.0.0.1:{port}" for port in process.stdout.readline().split()]
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


class Served:
    """A `serve`, and what its `/metrics` says."""

    def __init__(self, port: int, pid: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.pid = pid

    def values(self, name: str) -> list[float]:
        """Of all series of a metric of its own."""
        self.connection.request("GET", "/metrics")
        text = self.connection.getresponse().read().decode()
        return [float(value) for value in re.findall(rf"^{SELF}{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)]

    def wait_for(self, cycles: int, *, clusters: int) -> None:
        """Until so many clusters have had so many cycles."""
        deadline = time.monotonic() + 600
        while True:
            try:
                if sum(count >= cycles for count in self.values("cycles_total")) >= clusters:
                    return
            except (OSError, http.client.HTTPException):  # it does not listen yet
                self.connection.close()
            assert time.monotonic() < deadline, "it makes no cycles"
            time.sleep(0.25)


@contextmanager
def serve(*arguments: str) -> Iterator[Served]:
    (port,) = free_ports(1)
    words = [f"--publish.listen-address=127.0.0.1:{port}", "--state.file=none", "--log.level=error", *arguments]
    process = subprocess.Popen([*PYTHON, "exporter", "serve", *words], stderr=subprocess.DEVNULL)
    try:
        yield Served(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _lone(address: str) -> tuple[int, float]:
    """(partitions, processor of one cycle and its publication in ms), once connections and caches are there."""
    interval = f"--scan.interval={LONE_INTERVAL_S}s"
    with serve(f"--bootstrap-server={address}", interval) as served:
        served.wait_for(2, clusters=1)
        before_ms, before = cpu_ms(served.pid), served.values("cycles_total")[0]
        served.wait_for(int(before) + LONE_CYCLES, clusters=1)
        cycles = served.values("cycles_total")[0] - before
        partitions = sum(served.values("partitions"))
        return int(partitions), (cpu_ms(served.pid) - before_ms) / cycles


def _fleet(addresses: Sequence[str]) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # Connections are accepted by the kernel, and nobody answers.
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(SILENT)]
        named = {f"cluster-{number:03}": address for number, address in enumerate(addresses)}
        named |= {f"silent-{number}": f"127.0.0.1:{one.getsockname()[1]}" for number, one in enumerate(silent)}
        lines = [f"  {name}: {{kafka: {{bootstrap.servers: '{address}'}}}}" for name, address in named.items()]
        (folder / "clusters.yaml").write_text("\n".join(["clusters:", *lines, ""]))
        served = stack.enter_context(serve(f"--clusters={folder / 'clusters.yaml'}", f"--scan.interval={INTERVAL_S}s"))
        served.wait_for(2, clusters=len(addresses))
        began, before_ms, before = time.monotonic(), cpu_ms(served.pid), sum(served.values("cycles_total"))
        latencies = []
        while time.monotonic() < began + INTERVALS * INTERVAL_S:
            latencies.append(_scrape(served.connection)[0])
            time.sleep(SCRAPE_PAUSE_S)
        took_ms = cpu_ms(served.pid) - before_ms
        cycles = sum(served.values("cycles_total")) - before
        latencies.sort()
        missed = [int(count) for count in served.values("cycles_missed_total")]
        durations = served.values("cycle_duration_seconds")[: len(addresses)]
        sizes = _sizes(served)
        return {
            "partitions": sum(sizes),
            "sizes": sizes,
            "cycles": int(cycles),
            "cpu_ms": took_ms / INTERVALS,
            "peak_mb": peak_mb(served.pid),
            "scrapes": len(latencies),
            "p50_ms": 1000 * statistics.median(latencies),
            "p99_ms": 1000 * latencies[int(0.99 * len(latencies))],
            "missed_by_others": sum(missed[: len(addresses)]),
            "longest_cycle_s": max(durations),
        }


def _sizes(served: Served) -> list[int]:
    """Partitions of each cluster that is read."""
    served.connection.request("GET", "/metrics")
    text = served.connection.getresponse().read().decode()
    found = re.findall(rf'^{SELF}partitions{{cluster="cluster-\d+",answer="read"}} (\d+)$', text, re.MULTILINE)
    return [int(count) for count in found]


if __name__ == "__main__":
    import json

    print(json.dumps(measure(), indent=1))
