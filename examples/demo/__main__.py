"""`make demo`: a real Kafka, a workload on it, a transaction that nothing will ever close, and the exporter that finds it.

Runs until Ctrl-C, or for DEMO_SECONDS seconds. Leaves no process and no file.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from examples.demo.display import Cycle, read_cycle, shown
from examples.workload.planting import plant_hang
from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from tests.brokers.cluster import MeasuredCluster
from tests.brokers.maven import BrokersUnavailable

KAFKA: Final = "4.3.1"
HOST: Final = "127.0.0.1"
PORT: Final = 9814
URL: Final = f"http://{HOST}:{PORT}"
TOPICS: Final = ("orders", "payments", "shipments")
PARTITIONS: Final = 3
RHYTHMS: Final = {
    "checkout": Rhythm(hold_s=0.05),
    "billing": Rhythm(hold_s=0.4, zombie_every=10),
    "import": Rhythm(hold_s=0.2, abort_share=1.0),
    "nightly-report": Rhythm(hold_s=8.0),
}
INTERVAL: Final = "3s"
PLANT_AFTER_CYCLES: Final = 2
STUCK_FOR_MS: Final = 30 * 60 * 1000
START_SECONDS: Final = 20


class DemoFailed(Exception):
    """What is in the way, in one sentence."""


def main() -> int:
    """Run the demo; its exit status."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored
    try:
        seconds = _seconds()
        _require_free_port()
        _run(seconds)
    except (DemoFailed, BrokersUnavailable) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nended: broker, workload and exporter are gone")
    return 0


def _run(seconds: float) -> None:
    print(f"booting Kafka {KAFKA} (the first time, Maven brings its jars) ...", flush=True)
    # Since 3.6 a broker asks the coordinator before it lets a transaction in; switched off, a hang can be planted.
    with MeasuredCluster(KAFKA, properties={"transaction.partition.verification.enable": "false"}) as cluster:
        for topic in TOPICS:
            cluster.topics.create(topic, partitions=PARTITIONS)
        topics = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        print(f"Kafka is up at {cluster.bootstrap}; the exporter serves {URL}/metrics and the status page {URL}/")
        with Workload(cluster.bootstrap, topics) as workload, _exporter(cluster.bootstrap) as exporter:
            for transactional_id, rhythm in RHYTHMS.items():
                workload.add(transactional_id, rhythm)
            until = time.monotonic() + seconds  # from here on: the first boot may wait for Maven
            try:
                suspects = _watch(exporter, cluster.bootstrap, until)
            finally:
                ended = workload.ledger.total()
                print(
                    f"\nthe workload ended {ended.begun} transactions meanwhile: {ended.committed} committed, "
                    f"{ended.aborted} aborted, {ended.fenced} fenced"
                )
            print("suspects: " + (", ".join(sorted(suspects)) or "none"))


def _watch(exporter: subprocess.Popen[bytes], bootstrap: str, until: float) -> set[str]:
    """Show every cycle as the exporter publishes it, and plant a hang after the first few; every suspect that was seen."""
    suspects: set[str] = set()
    last: Cycle | None = None
    number = 0
    while time.monotonic() < until:
        cycle = read_cycle(f"{URL}/metrics", wait_s=START_SECONDS if last is None else 1)
        if exporter.poll() is not None:
            raise DemoFailed(f"the exporter ended by itself with status {exporter.returncode}; see above")
        if cycle is None or cycle == last:
            time.sleep(0.1)
            continue
        last = cycle
        number += 1
        suspects.update(cycle.suspects)
        print(shown(number, cycle), flush=True)
        if number == PLANT_AFTER_CYCLES:
            planted = plant_hang(
                bootstrap, "orders", 1, "abandoned-app", timestamp_ms=int(time.time() * 1000) - STUCK_FOR_MS
            )
            print(
                f"\n>>> planted: a record of 'abandoned-app' on orders-1 at offset {planted.start_offset}, as a zombie "
                "would write it half an hour ago: its coordinator does not know of it, so no marker will ever come\n"
            )
    return suspects


@contextmanager
def _exporter(bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    """The exporter as a user starts it."""
    command = [sys.executable, "-m", "exporter", "serve", "--bootstrap-server", bootstrap]
    settings = {
        "publish.listen-address": f"{HOST}:{PORT}",
        "scan.interval": INTERVAL,
        "scan.deadline": "2500ms",
        "state.file": "none",
        "log.level": "warning",
    }
    process = subprocess.Popen([*command, *(f"--{name}={value}" for name, value in settings.items())])
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _require_free_port() -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, PORT))
        except OSError as error:
            raise DemoFailed(f"port {PORT} is taken: end whatever listens on it ({error.strerror})") from error


def _seconds() -> float:
    written = os.environ.get("DEMO_SECONDS", "inf")
    try:
        return float(written)
    except ValueError as error:
        raise DemoFailed(f"DEMO_SECONDS must be a number of seconds, not {written!r}") from error


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
