"""A replaying broker in a process of its own, for as long as a `with` lasts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.listed import collector_at
from benchmarks.peers import PYTHON


@contextmanager
def replaying(topics: int, partitions: int, producers: int = 0, open_transactions: int = 0) -> Iterator[str]:
    """Its address, once it has all answers of a cycle ready."""
    words = [str(number) for number in (topics, partitions, producers, open_transactions)]
    process = subprocess.Popen(
        [*PYTHON, "benchmarks.replay", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = f"127.0.0.1:{int(process.stdout.readline())}"
        collector = collector_at(address)
        for _ in range(2):  # the second cycle cuts its requests by what the first has counted
            collector.collect()
        collector.close()
        yield address
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
