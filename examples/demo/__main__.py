"""`make demo`: a real Kafka, a workload on it, a transaction that nothing will ever close, and the exporter that finds it.

Runs until Ctrl-C or until its terminal is closed, or for DEMO_SECONDS seconds. Leaves no process and no file.
DEMO_PORT is the exporter's port, DEMO_KAFKA_PORT the broker's.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from examples.demo.consumers import consumer_group
from examples.demo.display import Cycle, read_cycle, shown
from examples.workload.planting import PlantedTransaction, plant_hang
from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from tests.brokers.cluster import MeasuredCluster, Properties
from tests.brokers.maven import BrokersUnavailable

KAFKA: Final = "4.3.1"
HOST: Final = "127.0.0.1"
PORT: Final = 9814
TOPICS: Final = ("orders", "payments", "shipments")
PARTITIONS: Final = 3
GROUP: Final = "order-emails"
"""Reads orders; it stops at the hang."""
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
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored
    try:
        seconds = _number("DEMO_SECONDS", math.inf, "a number of seconds")
        port = int(_number("DEMO_PORT", PORT, "a port"))
        kafka_port = int(_number("DEMO_KAFKA_PORT", 0, "a port")) or None
        for it in (port, kafka_port):
            _require_free(it)
        _run(seconds, port, kafka_port)
    except (DemoFailed, BrokersUnavailable) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print("\nended: broker, workload and exporter are gone", flush=True)
    return 0


def _run(seconds: float, port: int, kafka_port: int | None) -> None:
    url = f"http://{HOST}:{port}"
    print(f"booting Kafka {KAFKA} (the first time, Maven brings its jars) ...", flush=True)
    # Since 3.6 a broker asks the coordinator before it lets a transaction in; switched off, a hang can be planted.
    properties: Properties = {"transaction.partition.verification.enable": "false"}
    with MeasuredCluster(KAFKA, properties=properties, port=kafka_port) as cluster:
        for topic in TOPICS:
            cluster.topics.create(topic, partitions=PARTITIONS)
        topics = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        print(f"Kafka is up at {cluster.bootstrap}; the exporter serves {url}/metrics and the status page {url}/")
        with (
            consumer_group(cluster.bootstrap, GROUP, ["orders"]),
            Workload(cluster.bootstrap, topics) as workload,
            _exporter(cluster.bootstrap, port) as exporter,
        ):
            for transactional_id, rhythm in RHYTHMS.items():
                workload.add(transactional_id, rhythm)
            until = time.monotonic() + seconds  # from here on: the first boot may wait for Maven
            try:
                suspects = _watch(exporter, cluster.bootstrap, url, until)
            finally:
                ended = workload.ledger.total()
                print(
                    f"\nthe workload ended {ended.begun} transactions meanwhile: {ended.committed} committed, "
                    f"{ended.aborted} aborted, {ended.fenced} fenced"
                )
            print("suspects: " + (", ".join(sorted(suspects)) or "none"))


def _watch(exporter: subprocess.Popen[bytes], bootstrap: str, url: str, until: float) -> set[str]:
    """Show every cycle as the exporter publishes it, and plant a hang after the first few; every suspect that was seen."""
    suspects: set[str] = set()
    last: Cycle | None = None
    number = 0
    planted: PlantedTransaction | None = None
    while time.monotonic() < until:
        cycle = read_cycle(f"{url}/metrics", wait_s=START_SECONDS if last is None else 1)
        if exporter.poll() is not None:
            raise DemoFailed(f"the exporter ended by itself with status {exporter.returncode}; see above")
        if cycle is None or cycle == last:
            time.sleep(0.1)
            continue
        last = cycle
        number += 1
        suspects.update(cycle.suspects)
        print(shown(number, cycle), flush=True)
        if planted is not None and cycle.suspects:
            print(_now_try(bootstrap, url, planted.start_offset), flush=True)
            planted = None
        if number == PLANT_AFTER_CYCLES:
            planted = plant_hang(
                bootstrap, "orders", 1, "abandoned-app", timestamp_ms=int(time.time() * 1000) - STUCK_FOR_MS
            )
            print(
                f"\n>>> planted: a record of 'abandoned-app' on orders-1 at offset {planted.start_offset}, as a zombie "
                "would write it half an hour ago: its coordinator does not know of it, so no marker will ever come; "
                f"the group {GROUP} reads committed records only, and stops there\n"
            )
    return suspects


def _now_try(bootstrap: str, url: str, start_offset: int) -> str:
    """What a newcomer does next, to paste in another terminal."""
    program = Path(sys.executable).parent / "ktx"
    place = f"--bootstrap-server {bootstrap} --topic orders --partition 1"
    return (
        "\n>>> now try, in another terminal:\n"
        f"    {program} find-hanging --bootstrap-server {bootstrap}\n"
        f"    {program} abort {place} --start-offset {start_offset} --dry-run\n"
        f"    {program} abort {place} --start-offset {start_offset}\n"
        f"    status page: {url}/   incidents: {url}/incidents   metrics: {url}/metrics\n"
    )


@contextmanager
def _exporter(bootstrap: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The exporter as a user starts it."""
    command = [sys.executable, "-m", "exporter", "serve", "--bootstrap-server", bootstrap]
    settings = {
        "publish.listen-address": f"{HOST}:{port}",
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


def _require_free(port: int | None) -> None:
    if port is None:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise DemoFailed(
                f"port {port} cannot be used ({why}): choose others with DEMO_PORT and DEMO_KAFKA_PORT"
            ) from error


def _number(variable: str, default: float, what: str) -> float:
    written = os.environ.get(variable, "")
    try:
        return float(written) if written else default
    except ValueError as error:
        raise DemoFailed(f"{variable} must be {what}, not {written!r}") from error


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
