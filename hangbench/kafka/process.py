"""One broker process: started, ended, killed, frozen, and never left behind."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
STOP_TIMEOUT_S: Final = 30


@functools.cache
def end_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """What a child runs before its program so that the kernel kills it when the thread that started it is gone.

    SIGTERM is for one that has to end children of its own.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: nothing may be loaded between fork and exec
    return lambda: prctl(PR_SET_PDEATHSIG, number)


class JavaProcess:
    """A Java main class in a session of its own (a Ctrl-C of the terminal reaches us first), output in a file."""

    def __init__(self, command: Sequence[str], directory: Path, log_path: Path) -> None:
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see end_with_parent
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """Its exit code; killed where it takes longer."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            os.kill(self.pid, number)

    def freeze(self) -> None:
        """SIGSTOP, and wait until every thread has stopped: on a busy machine some run on for a while."""
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while not self._stopped():
            assert time.monotonic() < deadline, f"process {self.pid} does not stop"
            time.sleep(0.01)

    def _stopped(self) -> bool:
        try:
            statuses = [path.read_text() for path in Path(f"/proc/{self.pid}/task").glob("*/status")]
        except FileNotFoundError:  # a thread that has just ended
            return False
        return all("State:\tT" in status for status in statuses)

    def end(self) -> None:
        """Ask it to end; insist where it does not."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a frozen process sees nothing else
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()
