"""One Kafka node, broker and controller in one, on two loopback ports and one folder that outlive its process."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hangbench.kafka.maven import BrokersUnavailable
from hangbench.kafka.process import JavaProcess
from hangbench.kafka.wire import BrokerRefused, Wire, metadata

SERVING_TIMEOUT_S: Final = 60.0
POLL_PAUSE_S: Final = 0.05
LOG_TAIL_BYTES: Final = 4000
HOST: Final = "127.0.0.1"


@dataclass(kw_only=True)
class Broker:
    """All actions return when they have happened; `start` when the broker answers and its registration is live."""

    node_id: int
    port: int
    controller_port: int
    directory: Path
    java: Sequence[str]  # the java command up to its main class
    _process: JavaProcess | None = field(default=None, init=False)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def properties_path(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_path(self) -> Path:
        """What the process wrote to its standard streams: warnings and errors."""
        return self.directory / "output.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def configure(self, properties: Mapping[str, str | int]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={value}\n" for name, value in properties.items())
        self.properties_path.write_text("".join(lines), encoding="utf-8")

    def launch(self) -> None:
        """Start the process without waiting for it."""
        assert not self.running
        command = [*self.java, "kafka.Kafka", str(self.properties_path)]
        self._process = JavaProcess(command, self.directory, self.log_path)

    def start(self) -> None:
        """Start, or start again on the same ports and data."""
        self.launch()
        self.wait_until_serving({self.node_id})

    def stop(self) -> None:
        """An orderly shutdown (SIGTERM); nothing to do where it does not run."""
        if self._process is not None:
            self._process.end()

    def kill(self) -> None:
        """A crash (SIGKILL)."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its sockets accept and stay silent, as on a machine that hangs."""
        assert self._process is not None
        self._process.freeze()

    def resume(self) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGCONT)

    def wait_until_serving(self, node_ids: Iterable[int], *, timeout_s: float = SERVING_TIMEOUT_S) -> None:
        """Wait until this broker answers ApiVersions and Metadata, and lists these nodes as live brokers."""
        wanted = set(node_ids)
        deadline = time.monotonic() + timeout_s
        while not wanted <= (live := self._live_nodes()):
            if not self.running:
                raise BrokersUnavailable(f"broker {self.node_id} ended while starting; its output:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise BrokersUnavailable(
                    f"broker {self.node_id} did not serve within {timeout_s:.0f} s (live nodes {sorted(live)}, "
                    f"wanted {sorted(wanted)}); its output:\n{self.log_tail()}"
                )
            time.sleep(POLL_PAUSE_S)

    def log_tail(self) -> str:
        return self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log_path.exists() else ""

    def _live_nodes(self) -> set[int]:
        try:
            with Wire(HOST, self.port) as wire:
                answer = metadata(wire, [])
        except (OSError, BrokerRefused):
            return set()
        return {broker.node_id for broker in answer.brokers}
