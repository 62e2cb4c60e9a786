"""What both demos have on stage: a real Kafka, a workload with a consumer group, a planted hang, and the exporter."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from examples.demo.consumers import consumer_group
from examples.demo.display import Cycle, read_cycle
from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from exporter.commands.lines import fit_terminal
from hangbench.kafka.cluster import MeasuredCluster, Properties
from hangbench.kafka.maven import BrokersUnavailable, cache_folder
from hangbench.kafka.planting import PlantedTransaction, plant_hang
from hangbench.kafka.process import end_with_parent

NumberT = TypeVar("NumberT", int, float)
KAFKA: Final = "4.3.1"
HOST: Final = "127.0.0.1"
PORT: Final = 9814
OUTPUT: Final = Path("build") / "demo-pipeline"
"""The folder that `make demo-pipeline` makes."""
ENVIRONMENTS: Final = (Path(".venv"), Path("build") / "demo")
"""Folders of packages: `make demo` makes the second one unless the first exists."""
TOPICS: Final = ("orders", "payments", "shipments")
PARTITIONS: Final = 3
GROUP: Final = "order-emails"
"""Reads orders; it stops at the hang."""
ABANDONED: Final = "abandoned-app"
"""Transactional id of the planted hang."""
RHYTHMS: Final = {
    "checkout": Rhythm(hold_s=0.05),
    "billing": Rhythm(hold_s=0.4, zombie_every=10),
    "import": Rhythm(hold_s=0.2, abort_share=1.0),
    "nightly-report": Rhythm(hold_s=8.0),
}
INTERVAL: Final = "3s"
PLANT_AFTER_CYCLES: Final = 2
START_SECONDS: Final = 20
END_SECONDS: Final = 20


class DemoFailed(Exception):
    """What is in the way, in one sentence."""


@dataclass(frozen=True)
class Stage:
    """Where everything runs, while it runs."""

    bootstrap: str
    url: str
    exporter: subprocess.Popen[bytes]
    suspects: set[str] = field(default_factory=set)
    """Every one that was seen."""

    def cycles(self, seconds: float) -> Iterator[tuple[int, Cycle, PlantedTransaction | None]]:
        """Every cycle as the exporter publishes it, with its number, and the hang that is planted after the first few."""
        until = time.monotonic() + seconds
        last: Cycle | None = None
        planted: PlantedTransaction | None = None
        number = 0
        while time.monotonic() < until:
            cycle = read_cycle(f"{self.url}/metrics", wait_s=START_SECONDS if last is None else 1)
            if self.exporter.poll() is not None:
                raise DemoFailed(f"the exporter ended by itself with status {self.exporter.returncode}; see above")
            if cycle is None or cycle == last:
                time.sleep(0.1)
                continue
            last = cycle
            number += 1
            self.suspects.update(cycle.suspects)
            yield number, cycle, planted
            if number == PLANT_AFTER_CYCLES:
                planted = _plant(self.bootstrap)


def run_demo(demo: Callable[[int, int | None], None], *, end: Callable[[], str]) -> int:
    """Runs a demo with the ports of DEMO_PORT and DEMO_KAFKA_PORT, until a signal or the closed terminal.

    Returns the exit status; `end` makes the last lines, after a signal.
    """
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored
    try:
        port = number_in("DEMO_PORT", PORT, "a port", _fixed_port)
        kafka_port = number_in("DEMO_KAFKA_PORT", 0, "a port", int) or None
        for given in (port, kafka_port):
            _require_free(given)
        demo(port, kafka_port)
    except (DemoFailed, BrokersUnavailable, OSError) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            say(f"\n{end()}")
    return 0


@contextmanager
def stage(port: int, kafka_port: int | None, settings: Mapping[str, str]) -> Iterator[Stage]:
    """Everything, until the block ends; `settings` are the exporter's, on top of the demo's own."""
    url = f"http://{HOST}:{port}"
    print(f"booting Kafka {KAFKA} (the first time, Maven brings its jars) ...", flush=True)
    # Since 3.6 a broker asks the coordinator before it lets a transaction in; switched off, a hang can be planted.
    properties: Properties = {"transaction.partition.verification.enable": "false"}
    with MeasuredCluster(KAFKA, properties=properties, port=kafka_port) as cluster:
        for topic in TOPICS:
            cluster.topics.create(topic, partitions=PARTITIONS)
        topics = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        say(f"Kafka is up at {cluster.bootstrap}; the exporter serves {url}/metrics and the status page {url}/")
        with (
            consumer_group(cluster.bootstrap, GROUP, ["orders"]),
            Workload(cluster.bootstrap, topics) as workload,
            _exporter(cluster.bootstrap, port, settings) as exporter,
        ):
            for transactional_id, rhythm in RHYTHMS.items():
                workload.add(transactional_id, rhythm)
            made = Stage(cluster.bootstrap, url, exporter)
            try:
                yield made
            finally:
                ended = workload.ledger.total()
                print(
                    f"\nthe workload ended {ended.begun} transactions meanwhile: {ended.committed} committed, "
                    f"{ended.aborted} aborted, {ended.fenced} fenced"
                )
            print("suspects that were seen: " + (", ".join(sorted(made.suspects)) or "none"))


def what_stays(*places: str) -> str:
    """The last line of a demo: all that it and earlier demos have left on the disk, and where."""
    used = os.path.relpath(sys.prefix)
    used = sys.prefix if used.startswith(os.pardir) else used
    packages = dict.fromkeys([used, *(str(folder) for folder in ENVIRONMENTS if folder.is_dir())])
    earlier = [str(OUTPUT)] if OUTPUT.is_dir() and str(OUTPUT.absolute()) not in places else []
    always = (f"packages in {' and '.join(packages)}", f"jars in {cache_folder()}")
    return f"What stays: {', '.join((*places, *earlier, *always))}, and what Maven keeps in ~/.m2"


def say(text: str) -> None:
    """Prints lines at once, which continue between words where the terminal is narrower; others wait behind a pipe."""
    print(fit_terminal(text), flush=True)


def number_in(variable: str, default: NumberT, what: str, parse: Callable[[str], NumberT]) -> NumberT:
    """The value of a variable of the environment. Raises DemoFailed."""
    written = os.environ.get(variable, "")
    try:
        return parse(written) if written else default
    except ValueError as error:
        raise DemoFailed(f"{variable} must be {what}, not {written!r}") from error


def _fixed_port(text: str) -> int:
    """A port that the demo can name. Raises ValueError for 0, which is any port."""
    if not (port := int(text)):
        raise ValueError(text)
    return port


def _plant(bootstrap: str) -> PlantedTransaction:
    planted = plant_hang(bootstrap, "orders", 1, ABANDONED)
    say(
        f"\n>>> planted: a record of {ABANDONED!r} on orders-1 at offset {planted.start_offset}, as a client writes it "
        "that has not added the partition to a transaction: its coordinator does not know of it, so no marker will ever "
        "come. A broker takes it before Kafka 3.6, or, as here, with transaction.partition.verification.enable=false. "
        f"The group {GROUP} reads committed records only, and stops there\n"
    )
    return planted


@contextmanager
def _exporter(bootstrap: str, port: int, more: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The exporter as a user starts it."""
    command = [sys.executable, "-m", "exporter", "serve", "--bootstrap-server", bootstrap]
    settings = {
        "publish.listen-address": f"{HOST}:{port}",
        "scan.interval": INTERVAL,
        "scan.deadline": "2500ms",
        "state.file": "none",
        "log.level": "warning",
        "cluster.name": "demo",
        "publish.external-url": f"http://{HOST}:{port}",
        **more,
    }
    process = subprocess.Popen(
        [*command, *(f"--{name}={value}" for name, value in settings.items())],
        preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see there
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
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


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
