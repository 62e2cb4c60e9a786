"""Processes that scan when told to: a line on standard input is one scan, a line of JSON on standard output its cost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.brokers.cluster import KafkaCluster
from tests.brokers.maven import kafka_jars, require_program

HERE = Path(__file__).parent


class Contestant:
    """One process; `rounds` are what its scans cost: wall_ms, cpu_ms."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.rounds: list[dict[str, float]] = []
        self.peak_mb = 0.0
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def scan(self, *, counts: bool) -> None:
        """One scan; a warm-up does not count."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("scan\n")
        self._process.stdin.flush()
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert told["entries"] > 0, f"{self.name} read nothing"
        self.peak_mb = self._peak_mb()
        if counts:
            self.rounds.append(told)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _peak_mb(self) -> float:
        """The process's own high-water mark, as the kernel keeps it."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(kilobytes) / 1024


@contextmanager
def contestants(cluster: KafkaCluster) -> Iterator[tuple[Contestant, ...]]:
    """Ours first, then the peers; all ended at the end."""
    java = require_program("java", "openjdk-17-jre-headless")
    jars = kafka_jars(cluster.version)
    python = [sys.executable, "-m"]
    commands = {
        "exporter, whole cycle": [*python, "benchmarks.scan_exporter", cluster.bootstrap],
        "kafka-python as it is": [*python, "benchmarks.scan_kafka_python", cluster.bootstrap],
        "Java AdminClient": [
            java,
            "-Xmx512m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            f"{jars}/*",
            str(HERE / "ScanJavaAdmin.java"),
            cluster.bootstrap,
        ],
    }
    with ExitStack() as stack:
        started = []
        for name, command in commands.items():
            contestant = Contestant(name, command)
            stack.callback(contestant.close)
            started.append(contestant)
        yield tuple(started)
