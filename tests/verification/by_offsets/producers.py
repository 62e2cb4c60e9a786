"""Runs BusyProducers.java beside a cluster, and reads its journal of transactions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.process import JavaProcess
from hangbench.situations.ground import described
from hangbench.waiting import until

SOURCE: Final = Path(__file__).with_name("BusyProducers.java")
STARTED_WITHIN_S: Final = 60.0
BUMPED_WITHIN: Final = 20
"""Transactions of an id after which its epoch shows the version; a new producer bumps it too, but rarely."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A transaction as its producer saw it. Instants in ms by the wall clock."""

    transactional_id: str
    begun_ms: int
    ended_ms: int
    partitions: frozenset[int]
    outcome: str

    @classmethod
    def of(cls, line: str) -> JournalEntry:
        """Reads a line of the journal."""
        name, begun, ended, bits, outcome = line.split()
        partitions = frozenset(at for at in range(int(bits).bit_length()) if int(bits) >> at & 1)
        return cls(name, int(begun), int(ended), partitions, outcome)

    @property
    def is_busy(self) -> bool:
        """True for an id that stays."""
        return self.transactional_id.startswith("busy-")


class BusyProducers:
    """The process, which ends with `close`."""

    def __init__(self, cluster: KafkaCluster, folder: Path, topic: str, partitions: int, hung: int, seed: int) -> None:
        self._bootstrap = cluster.bootstrap
        self._journal = folder / "journal"
        self._journal.touch()
        numbers = map(str, (partitions, hung, seed))
        command = cluster.tool_command(str(SOURCE), cluster.bootstrap, topic, *numbers, str(self._journal))
        self._process = JavaProcess(command, folder, folder / "java.log")
        self.close = self._process.kill

    def journal(self) -> list[JournalEntry]:
        """The transactions that have ended."""
        whole, _, _ = self._journal.read_text(encoding="utf-8").rpartition("\n")
        return [JournalEntry.of(line) for line in whole.splitlines()]

    def transaction_version(self) -> int:
        """2 if the epoch of a producer grows with its transactions, as its coordinator shows it; otherwise 0."""
        first, begun = self._wait_for_epoch(0)
        last, ended = self._wait_for_epoch(begun + BUMPED_WITHIN)
        return 2 if last - first >= (ended - begun) // 2 else 0

    def _wait_for_epoch(self, transactions: int) -> tuple[int, int]:
        """The epoch of the first id once so many of its transactions have ended, and how many have."""
        name = "busy-0"

        def ended() -> int:
            assert self._process.exit_code is None, "BusyProducers has ended"
            return sum(entry.transactional_id == name for entry in self.journal())

        until(lambda: ended() > transactions, patience_s=STARTED_WITHIN_S)
        found = described(self._bootstrap, name)
        assert found is not None
        return found.producer_epoch, ended()
