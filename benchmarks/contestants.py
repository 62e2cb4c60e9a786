"""Processes that do one thing when told to: a line on standard input is one round, a line of JSON on standard output says
what it gave. CPU is counted from outside, by the kernel's clock of each process, the same for every language.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

_CPUCLOCK_SCHED: Final = 2  # linux/posix-timers.h: all threads of a process, in nanoseconds


class Contestant:
    """One process; `rounds` are what its rounds cost: wall_ms and whatever else it tells, cpu_ms, broker_cpu_ms."""

    def __init__(
        self, name: str, command: Sequence[str], *, broker_pid: int | None = None, with_children: bool = False
    ) -> None:
        self.name = name
        self.rounds: list[dict[str, float]] = []
        self.peak_mb = 0.0
        self._broker_pid = broker_pid
        self._own_cpu_ms = cpu_ms_of_all if with_children else cpu_ms
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def scan(self, *, counts: bool) -> None:
        """One round; a warm-up does not count."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        broker_cpu_ms = self._broker_cpu_ms()
        own_cpu_ms = self._own_cpu_ms(self._process.pid)
        self._process.stdin.write("scan\n")
        self._process.stdin.flush()
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert told["entries"] > 0, f"{self.name} read nothing"
        self.peak_mb = peak_mb(self._process.pid)
        cost = {
            "cpu_ms": self._own_cpu_ms(self._process.pid) - own_cpu_ms,
            "broker_cpu_ms": self._broker_cpu_ms() - broker_cpu_ms,
        }
        if counts:
            self.rounds.append({**cost, **told})

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

    def _broker_cpu_ms(self) -> float:
        return 0.0 if self._broker_pid is None else cpu_ms(self._broker_pid)


def cpu_ms(pid: int) -> float:
    """CPU time of a process and all its threads so far."""
    return time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED) / 1e6


def cpu_ms_of_all(pid: int) -> float:
    """The same of a process and of all that it has started, and they."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            # The name, in parentheses, may hold anything.
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0.0
    for member in family:
        with suppress(OSError):
            total += cpu_ms(member)
    return total


def peak_mb(pid: int | str) -> float:
    """A process's own high-water mark of resident memory, as the kernel keeps it."""
    status = Path(f"/proc/{pid}/status").read_text()
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(kilobytes) / 1024


@contextmanager
def contestants(
    commands: Mapping[str, Sequence[str]], *, broker_pid: int | None = None, with_children: bool = False
) -> Iterator[tuple[Contestant, ...]]:
    """A process for each command; all ended at the end."""
    with ExitStack() as stack:
        started = []
        for name, command in commands.items():
            contestant = Contestant(name, command, broker_pid=broker_pid, with_children=with_children)
            stack.callback(contestant.close)
            started.append(contestant)
        yield tuple(started)
