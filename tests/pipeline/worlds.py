"""Random histories with all that can go wrong in one: a world is what really happened, and what exporters wrote of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from exporter.history.schema import OBSERVATIONS, VERSION, folder_of_cluster
from tests.pipeline import cases

HOUR_S: Final = 3_600
CYCLES: Final = 30
SOURCES: Final = ("first_seen", "last_write", "transaction_log", "coordinator")
VERDICTS: Final = ("open_within_timeout", "overdue_at_coordinator", "hanging_not_in_transaction", "inconclusive")
TOPICS: Final = ("orders", "bills-2")
PARTITIONS: Final = 3
QUIRKS: Final = (
    "clock_back",
    "copied_files",
    "created_again",
    "damaged",
    "far_future",
    "forgotten_rows",
    "gap",
    "next_epochs",
    "no_topic_ids",
    "not_ascii",
    "old_columns",
    "one_instant",
    "other_cluster",
    "restarts",
    "seldom_named",
    "truncated",
    "two_daemons",
    "unread",
    "verdicts",
    "new_verdicts",
    "seen_once",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A transaction on one partition, as it really was; instants in seconds."""

    since: int
    until: int
    started: int
    row: dict[str, Any]


def quirks_of(seed: int) -> frozenset[str]:
    """Those of one world: first each alone, then any of them together."""
    if seed < len(QUIRKS):
        return frozenset({QUIRKS[seed]})
    draw = random.Random(f"quirks {seed}")
    return frozenset(quirk for quirk in QUIRKS if draw.random() < draw.choice((0.1, 0.6)))


def write_world(seed: int, history: Path) -> None:
    """Each world is a cluster of its own, or two."""
    quirks = quirks_of(seed)
    for number in range(2 if "other_cluster" in quirks else 1):
        letter = "\u00fc" if "not_ascii" in quirks else "w"
        name = f"{letter}{seed}{'b' * number}"
        _World(random.Random(f"{seed} {number}"), quirks, history, name).write()


class _World:
    def __init__(self, draw: random.Random, quirks: frozenset[str], history: Path, cluster_id: str) -> None:
        self.draw, self.quirks, self.history, self.cluster_id = draw, quirks, history, cluster_id
        self.instants = [0]
        for _ in range(CYCLES):
            self.instants.append(self.instants[-1] + draw.choice((30, 30, 60, 400, HOUR_S, 8 * HOUR_S)))
        self.again = draw.choice(self.instants[5:-5])
        """When a topic is created again, or a partition truncated."""

    def write(self) -> None:
        parts = [*self._ordinary(), *self._twice()]
        writers = 2 if "two_daemons" in self.quirks else 1
        for number in range(writers):
            late = self.draw.choice((0, 0, 20)) if number else 0
            instants = [at + late for at in self.instants[:: 1 + number]]
            self._write_cycles(f"d{number}", [self._cycle(at, parts) for at in instants])
        if "far_future" in self.quirks:
            far = 60 * 24 * HOUR_S
            self._write_files("future", [{"at": far, "open": [{"start_offset": 1}]}, {"at": far + 30}])

    def _ordinary(self) -> Iterator[Part]:
        """Producers with one transaction after the other, on one to three partitions, of which some come later."""
        offset, ends = 100, [*self.instants, self.instants[-1] + HOUR_S]
        for producer_id in range(4):
            first, epoch = self.draw.randrange(3), 0
            while first < CYCLES:
                last = min(first + self.draw.choice((1, 1, 1, 2, 3, 6, 15)), len(ends) - 1)
                epoch += "next_epochs" in self.quirks and self.draw.random() < 0.7
                started = ends[first] - self.draw.randrange(1, 30)
                for topic, partition in self.draw.sample(_partitions(), self.draw.randint(1, 3)):
                    offset += 1
                    row = {"topic": topic, "partition": partition, "start_offset": offset, "producer_epoch": epoch}
                    since = ends[min(first + self.draw.choice((0, 0, 0, 1, 4)), last - 1)] - 1
                    yield self._part(since, ends[last] - self.draw.randrange(25), started, row, producer_id)
                first = last + self.draw.choice((0, 0, 1, 3))

    def _twice(self) -> Iterator[Part]:
        """Two transactions of one producer at one offset."""
        for quirk, ids in (("created_again", ("one", "two")), ("truncated", ("one", "one"))):
            if quirk in self.quirks:
                start_offset = QUIRKS.index(quirk)
                spans = (
                    (self.again - 3 * HOUR_S, self.again - self.draw.choice((0, 10))),
                    (self.again + 1, self.again + self.draw.choice((50, 9 * HOUR_S))),
                )
                for (since, until), topic_id in zip(spans, ids, strict=True):
                    row = {"start_offset": start_offset, "topic_id": topic_id}
                    yield self._part(since, until, since, row, 9)

    def _part(self, since: int, until: int, started: int, row: dict[str, Any], producer_id: int) -> Part:
        topic_id = None if "no_topic_ids" in self.quirks else row.get("topic_id", f"id-{row.get('topic')}")
        return Part(since, until, started, {**row, "producer_id": producer_id, "topic_id": topic_id})

    def _cycle(self, at: int, parts: list[Part]) -> dict[str, Any]:
        share = 0.25 if "unread" in self.quirks else 0
        unread = [f"{topic}-{partition}" for topic, partition in _partitions() if self.draw.random() < share]
        shown = 0.85 if "forgotten_rows" in self.quirks else 1
        visible = [
            part
            for part in parts
            if part.since <= at < part.until
            and f"{part.row.get('topic', 'orders')}-{part.row.get('partition', 0)}" not in unread
            and self.draw.random() < shown
        ]
        return {"at": at, "open": [self._seen(part, at) for part in visible], "unread": unread}

    def _seen(self, part: Part, at: int) -> dict[str, Any]:
        """One observation: its columns differ from cycle to cycle, and are true in each."""
        source = self.draw.choice(SOURCES)
        is_exact = source in SOURCES[2:]
        verdict = self.draw.choice(VERDICTS) if "verdicts" in self.quirks else VERDICTS[0]
        if "new_verdicts" in self.quirks and self.draw.random() < 0.2:
            verdict = "hanging_by_a_new_rule"
        starts: tuple[int, ...] = (0, 30)
        if "seen_once" in self.quirks:
            source, is_exact, starts = SOURCES[0], False, (0, 0, 0, 30)
        is_named = self.draw.random() < (0.2 if "seldom_named" in self.quirks else 0.9)
        return {
            **part.row,
            "start_source": source,
            "started": part.started if is_exact else at - self.draw.choice(starts),
            "transactional_id": f"app-{part.row['producer_id']}" if is_named else None,
            "verdict": verdict,
            "groups": self.draw.choice(([], ["one"], ["two", "one"])) if verdict != VERDICTS[0] else [],
            "last_stable_offset_lag": self.draw.choice((None, self.draw.randrange(1_000))),
            "idle_ms": self.draw.randrange(1_000),
            "is_late": self.draw.random() < 0.1,
            "cause": self.draw.choice((None, "late_write", "marker_lost")) if verdict != VERDICTS[0] else None,
        }

    def _write_cycles(self, writer: str, cycles: list[dict[str, Any]]) -> None:
        if "gap" in self.quirks:
            first = self.draw.randrange(len(cycles) // 2)
            cycles = cycles[:first] + cycles[first + self.draw.randint(1, 6) :]
        if "clock_back" in self.quirks:
            for cycle in cycles[len(cycles) // 2 :]:
                cycle["at"] -= 700
        if "one_instant" in self.quirks:
            cycles[3]["at"] = cycles[2]["at"]
        number = 0
        while cycles:
            number += 1
            count = self.draw.randint(1, 5)
            is_other = "restarts" in self.quirks and self.draw.random() < 0.5
            self._write_files(f"{writer}{number if is_other else ''}-{number}", cycles[:count])
            cycles = cycles[count:]

    def _write_files(self, writer: str, cycles: list[dict[str, Any]]) -> None:
        copies = 2 if "copied_files" in self.quirks and self.draw.random() < 0.3 else 1
        cases.write_file(self.history, self.cluster_id, writer, cycles, copies=copies)
        folder = self.history / VERSION / OBSERVATIONS / folder_of_cluster(self.cluster_id)
        (file,) = folder.glob(f"*/*-{writer}.parquet")
        if "old_columns" in self.quirks and self.draw.random() < 0.5:
            pq.write_table(pq.ParquetFile(file).read().drop_columns(["topic_id", "outcome_evidence", "cause"]), file)
        if "damaged" in self.quirks and self.draw.random() < 0.1:
            file.write_bytes(file.read_bytes()[:-20])


def _partitions() -> list[tuple[str, int]]:
    return [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
