"""Runs a transactional producer as a process of its own, which can be killed, stopped and continued by signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hangbench.parties.words import Place
from hangbench.waiting import until

PROGRAM: Final = """
import sys
from confluent_kafka import Producer

bootstrap, transactional_id, timeout_ms, *places = sys.argv[1:]
names = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
producer = Producer({**names, "transaction.timeout.ms": int(timeout_ms), "linger.ms": 0, "log_level": 0})


def write():
    for place in places:
        topic, _, partition = place.rpartition(":")
        producer.produce(topic, key=b"key", value=b"open", partition=int(partition))
    assert producer.flush(30) == 0
    print("done", flush=True)


producer.init_transactions(30)
producer.begin_transaction()
write()
for line in sys.stdin:
    if line == "write\\n":
        write()
    elif line == "next\\n":
        producer.commit_transaction(30)
        producer.begin_transaction()
        write()
    else:
        producer.commit_transaction(30)
        print("done", flush=True)
"""


class OwnerProcess:
    """A process with an open transaction on some partitions; its records are in the log when it is made."""

    def __init__(self, bootstrap: str, transactional_id: str, places: Sequence[Place], *, timeout_ms: int) -> None:
        named = [f"{topic}:{partition}" for topic, partition in places]
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, bootstrap, transactional_id, str(timeout_ms), *named],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._is_done()

    def write(self) -> None:
        """Writes one more record to each partition."""
        self._order("write")

    def next_transaction(self) -> None:
        """Commits, and begins another transaction with a record on each partition."""
        self._order("next")

    def commit(self) -> None:
        """Commits; the markers follow."""
        self._order("commit")

    def kill(self) -> None:
        """Ends the process by SIGKILL, as the kernel does without memory; the coordinator hears nothing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def stop(self) -> None:
        """Freezes it by SIGSTOP, as on a machine that swaps or a debugger."""
        os.kill(self._process.pid, signal.SIGSTOP)
        until(lambda: _state_of(self._process.pid) == "T")

    def resume(self) -> None:
        """Lets it continue by SIGCONT."""
        os.kill(self._process.pid, signal.SIGCONT)

    def _order(self, word: str) -> None:
        assert self._process.stdin is not None
        print(word, file=self._process.stdin, flush=True)
        self._is_done()

    def _is_done(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "done\n", f"the producer ended: {line!r}"


def _state_of(pid: int) -> str:
    """Returns the state of a process of Linux, such as S or T."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
