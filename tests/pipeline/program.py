"""`kafka-transaction-exporter pipeline` as users run it: a process, with Spark's, in a group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from exporter.pipeline.session import FAST_START

PATIENCE_S: Final = 300


class Program:
    """One that runs; what it prints goes to the end of `said`."""

    def __init__(self, arguments: Sequence[str], output_file: Path) -> None:
        command = [sys.executable, "-m", "exporter", "pipeline", *arguments, "--master=local[2]", "--memory=512m"]
        self._output_file = output_file
        with output_file.open("ab") as output:
            environment = {**os.environ, "JDK_JAVA_OPTIONS": FAST_START}
            self._process = subprocess.Popen(command, start_new_session=True, stdout=output, env=environment)

    def is_over_within(self, seconds: float) -> bool:
        """True if the program ended by itself with status 0."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert self._process.wait(seconds) == 0
            return True
        return False

    def until(self, seen: Callable[[str], bool]) -> None:
        """Wait until what all programs have said is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not seen(self._output_file.read_text()):
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self, *, with_spark: bool) -> None:
        """Without Spark's process that one lives on for a moment, and writes."""
        if with_spark:
            self.end()
        else:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def end(self) -> None:
        """All of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)


Begin = Callable[[Sequence[str]], Program]
