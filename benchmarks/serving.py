"""A real `serve` in a process of its own, for as long as a `with` lasts."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hangbench.kafka.ports import free_ports

PATIENCE_S: Final = 120
READER: Final = "127.0.0.2"
"""The address from which a benchmark reads."""
SELF: Final = "kafka_transaction_exporter_"


class Serving:
    """What `/metrics` says of its own cycles."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.port = port
        self._process = process
        self.pid = process.pid

    def cycles(self) -> int:
        """That ended so far."""
        return int(self._value(f"{SELF}cycles_total"))

    def missed_cycles(self) -> int:
        """That could not begin because the one before was still running."""
        return int(self._value(f"{SELF}cycles_missed_total"))

    def wait_for_cycles(self, count: int) -> None:
        """Until so many have ended."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self.cycles() >= count:
                    return
            except OSError:  # it does not listen yet
                pass
            assert self._process.poll() is None, "it has ended"
            assert time.monotonic() < deadline, "it makes no cycles"
            time.sleep(0.1)

    def cycle_seconds(self, *, for_s: float) -> list[float]:
        """How long each cycle took that ended within that time."""
        told: dict[int, float] = {}
        deadline = time.monotonic() + for_s
        while time.monotonic() < deadline:
            told[self.cycles()] = self._value(f"{SELF}cycle_duration_seconds")
            time.sleep(0.2)
        return list(told.values())

    def resident_mb(self) -> float:
        """Memory now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (kilobytes,) = re.findall(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)
        return int(kilobytes) / 1024

    def _value(self, name: str) -> float:
        # From an address of its own: where connections are shed, they are those of the address that has most.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10, source_address=(READER, 0))
        with contextlib.closing(connection):
            connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
            text = gzip.decompress(connection.getresponse().read())
        (value,) = re.findall(rf"^{name} (\S+)$".encode(), text, re.MULTILINE)
        return float(value)


@contextmanager
def serving(bootstrap: str, *, interval_ms: int, deadline_ms: int | None = None) -> Iterator[Serving]:
    """Its web server may not have begun to listen."""
    (port,) = free_ports(1)
    program = str(Path(sys.executable).with_name("kafka-transaction-exporter"))
    process = subprocess.Popen(
        [
            *(program, "serve", "--bootstrap-server", bootstrap, "--state.file", "none", "--log.level", "error"),
            *("--publish.listen-address", f"127.0.0.1:{port}"),
            *("--scan.interval", f"{interval_ms}ms", "--scan.deadline", f"{deadline_ms or interval_ms * 9 // 10}ms"),
        ]
    )
    try:
        yield Serving(process, port)
    finally:
        process.terminate()
        process.wait(20)
