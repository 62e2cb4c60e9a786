"""Operators that wait for the lock of their audit log while the transaction that they were shown changes."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from exporter.commands.arguments import build_parser
from exporter.commands.context import Context
from exporter.commands.recover import ClusterAccess, means_of, recover
from exporter.config.loading import load
from exporter.config.settings import Settings
from exporter.recovery.partition import ClusterQueries, DecidingCoordinator, PartitionOnBrokers, PartitionState
from exporter.recovery.plan import Action
from hangbench.situations.ground import described
from hangbench.situations.steps import Client
from hangbench.waiting import until
from tests.watching import Watch

PATIENCE_S: Final = 60
TIMES: Final = 20
REQUEST_TIMEOUT_MS: Final = 3000


def settings_of(bootstrap: str) -> Settings:
    return load(
        file=None,
        environment={},
        flags={"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": str(REQUEST_TIMEOUT_MS)},
    ).settings


def context_of(folder: Path, *arguments: str) -> Context:
    """As the command line makes it, with a state directory of its own."""
    return Context(options=build_parser().parse_args(arguments), state_folder=folder, may_colour=False)


def abort_context(folder: Path, topic: str, partition: int, start_offset: int = 0) -> Context:
    place = ("--topic", topic, "--partition", str(partition), "--start-offset", str(start_offset))
    return context_of(folder, "abort", *place, "--yes")


@contextmanager
def means_on(bootstrap: str) -> Iterator[ClusterAccess]:
    """Those of a connection of its own."""
    with Watch(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as watch:
        yield means_of(settings_of(bootstrap), watch.collector)


def aborts(bootstrap: str, folder: Path, topic: str, partition: int, *, start_offset: int = 0) -> int:
    """The exit status of `abort --yes`, with an audit log of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with means_on(bootstrap) as means:
        return recover(abort_context(folder, topic, partition, start_offset), means, Action.ABORT)


class Held:
    """Commands whose question was confirmed, and that wait for their locks until `released`."""

    def __init__(self, folder: Path, commands: Sequence[Callable[[Path], int]]) -> None:
        self._folders = [folder / str(number) for number in range(len(commands))]
        self.statuses: list[int | BaseException | None] = [None] * len(commands)
        self._locks = ExitStack()
        for locked in self._folders:
            locked.mkdir(parents=True)
            lock = self._locks.enter_context((locked / "audit.jsonl").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        self._threads = [
            threading.Thread(target=self._run, args=(number, command), daemon=True)
            for number, command in enumerate(commands)
        ]

    def __enter__(self) -> Held:
        """Return when every command's question is confirmed."""
        for thread in self._threads:
            thread.start()
        until(
            lambda: all('"confirmed"' in (folder / "audit.jsonl").read_text() for folder in self._folders),
            patience_s=PATIENCE_S,
            status=lambda: self.statuses,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()

    def released(self) -> list[int | BaseException | None]:
        """Exit statuses, or what was raised, once all have ended."""
        self._locks.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return self.statuses

    def _run(self, number: int, command: Callable[[Path], int]) -> None:
        try:
            self.statuses[number] = command(self._folders[number])
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.statuses[number] = error


class Interrupted(PartitionOnBrokers):
    """A partition to which something happens between the first look and the one before the marker."""

    def __init__(self, asks: ClusterQueries, topic: str, partition: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(asks, topic, partition)
        self._meanwhile: Callable[[], None] | None = meanwhile

    def look(self, coordinated: DecidingCoordinator | None = None) -> PartitionState:
        look = super().look(coordinated)
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return look


@contextmanager
def interrupted(bootstrap: str, meanwhile: Callable[[], None]) -> Iterator[ClusterAccess]:
    """Means with which `meanwhile` happens once, after the first look at a partition."""
    with Watch(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as watch:
        yield replace(
            means_of(settings_of(bootstrap), watch.collector),
            partition=lambda topic, number: Interrupted(watch.collector, topic, number, meanwhile),
        )


def committed_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, list[int]]:
    """Partition -> offsets that a read_committed consumer sees, read as far as it may."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    seen: dict[int, list[int]] = {number: [] for number in range(partitions)}
    ended: set[int] = set()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    deadline = time.monotonic() + PATIENCE_S
    try:
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"partitions {sorted(set(seen) - ended)} were not read to their ends"
            message = consumer.poll(1)
            if message is None:
                continue
            partition, offset, error = message.partition(), message.offset(), message.error()
            assert partition is not None
            assert offset is not None
            if error is None:
                seen[partition].append(offset)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
    finally:
        consumer.close()
    return seen


def state_of(client: Client) -> str:
    listed = described(client.bootstrap, client.transactional_id)
    return "" if listed is None else listed.state
