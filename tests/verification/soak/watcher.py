"""What an exporter says, scrape by scrape, held against what is true; whatever is against it is a violation.

Asserted of every scrape: it comes within a second; no transaction is called hanging where none was planted; partitions that
were not read have no series; the snapshot's time never goes back and is never in the future; a hang never began later than
two cycles said before, also before a restart, and its partition's longest duration is no shorter. And of every two clean
cycles in a row: each hang that was there before them is proved.
"""

from __future__ import annotations

import math
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.verification.background import Background
from tests.verification.soak.clock import WallClock

Key = tuple[str, int, int]
"""(topic, partition, producer id)."""

SCRAPE_PAUSE_S: Final = 0.2
ANSWER_S_MAX: Final = 1.0
CLOCK_SLACK_S: Final = 0.5
CYCLES_TO_PROVE: Final = 2
START_SLACK_S: Final = 0.01
STEP_FORGOTTEN_S: Final = 5.0


@dataclass
class Truth:
    """The hangs that were planted. Instants by the monotonic clock."""

    places: set[tuple[str, int]] = field(default_factory=set)
    """Partitions that have a hang now or had or will have one: no other producer writes there."""
    planted: dict[Key, float] = field(default_factory=dict)
    healed: dict[Key, float] = field(default_factory=dict)

    def hanging(self) -> set[Key]:
        """Those that are there now."""
        return set(self.planted) - set(self.healed)

    def hanging_since(self, instant: float) -> set[Key]:
        """Those that are there now and were there then."""
        return {key for key in self.hanging() if self.planted[key] < instant}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One scrape."""

    at: float
    """By the monotonic clock, before the request."""
    cycles: int
    snapshot_s: float
    succeeded: bool
    hanging: dict[Key, float]
    """With the reported start, in seconds since 1970."""
    longest: dict[tuple[str, int], float]
    """(topic, partition) -> seconds, where something is open."""
    read: int
    series: int
    """Of the longest duration: one for each partition that was read."""
    gaps: int
    """Partitions, brokers and coordinators that did not answer, and transactions of which nothing could be said."""

    @property
    def is_clean(self) -> bool:
        """True if every request got a response."""
        return self.succeeded and self.gaps == 0


def seen_in(text: str, at: float) -> Seen | None:
    """What a scrape says; None before the first snapshot and after the last has become stale."""
    values: dict[str, float] = {}
    hanging: dict[Key, float] = {}
    longest: dict[tuple[str, int], float] = {}
    gaps = series = read = 0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name, labels = sample.name, sample.labels
            values[name] = sample.value
            if name == "kafka_suspect_transaction_start_timestamp_seconds" and labels["verdict"].startswith("hanging"):
                hanging[labels["topic"], int(labels["partition"]), int(labels["producer_id"])] = sample.value
            if name == "kafka_partition_max_active_transaction_duration_seconds":
                series += 1
                if sample.value:
                    longest[labels["topic"], int(labels["partition"])] = sample.value
            if name == "kafka_transaction_exporter_partitions":
                read += int(sample.value) if labels["answer"] == "read" else 0
                gaps += 0 if labels["answer"] == "read" else int(sample.value)
            if labels.get("answer") == "failed" or (
                name == "kafka_open_transactions" and labels["verdict"] in ("inconclusive", "replica_diverged")
            ):
                gaps += int(sample.value)
    if "kafka_late_transactions" not in values:
        return None
    return Seen(
        at=at,
        cycles=int(values["kafka_transaction_exporter_cycles_total"]),
        snapshot_s=values["kafka_transaction_exporter_snapshot_timestamp_seconds"],
        succeeded=values["kafka_transaction_exporter_last_cycle_success"] == 1,
        hanging=hanging,
        longest=longest,
        read=read,
        series=series,
        gaps=gaps,
    )


class Watcher(Background):
    """Scrapes one exporter without pause, from a thread of its own."""

    def __init__(
        self, name: str, url: str, truth: Truth, *, is_up: Callable[[], bool], clock: WallClock | None = None
    ) -> None:
        """`clock`: the exporter's, if it can be set; its value then has no influence on the judgement."""
        self.name = name
        self.url = url
        self.violations: list[str] = []
        self.scrapes = 0
        self.slowest_s = 0.0
        self.latest: Seen | None = None
        self._truth = truth
        self._is_up = is_up
        self._clock = clock
        self._stepped_at = -math.inf
        self._since_s: dict[Key, float] = {}
        """The start of a hang, in seconds since 1970, once two cycles reported it; a restart does not change it."""
        self._clean: list[Seen] = []
        """The clean cycles in a row that led here, each by its first scrape."""
        super().__init__()

    def expect_restart(self) -> None:
        """Cycles are counted from the beginning again."""
        self._clean = []
        self.latest = None

    def run(self) -> None:
        while not self.pause(SCRAPE_PAUSE_S):
            began = time.monotonic()
            try:
                with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
                    text = answer.read().decode()
            except OSError as error:
                if self._is_up() and not self.is_ending():
                    self.violations.append(f"{self.name} does not answer: {error}")
                continue
            took_s = time.monotonic() - began
            self.scrapes += 1
            self.slowest_s = max(self.slowest_s, took_s)
            if took_s > ANSWER_S_MAX:
                self.violations.append(f"{self.name} took {took_s:.1f} s to answer")
            seen = seen_in(text, began)
            if seen is not None:
                self._judge(seen, time.time())
                self.latest = seen

    def _judge(self, seen: Seen, now_s: float) -> None:
        before = self.latest
        wrong = [key for key in seen.hanging if key[:2] not in self._truth.places]
        if wrong:
            self.violations.append(f"{self.name} calls hanging what is not: {sorted(wrong)}")
        if seen.series != seen.read:
            self.violations.append(f"{self.name} has {seen.series} series of {seen.read} partitions that were read")
        if self._is_clock_stepped(seen.at):
            pass
        elif seen.snapshot_s > now_s + CLOCK_SLACK_S or (before is not None and seen.snapshot_s < before.snapshot_s):
            self.violations.append(f"{self.name} has a snapshot of {seen.snapshot_s}, now {now_s}")
        self._judge_starts(seen)
        if not seen.is_clean:
            self._clean = []
        elif not self._clean or self._clean[-1].cycles != seen.cycles:
            in_a_row = bool(self._clean) and self._clean[-1].cycles == seen.cycles - 1
            self._clean = [*(self._clean if in_a_row else []), seen][-CYCLES_TO_PROVE - 1 :]
            if len(self._clean) > CYCLES_TO_PROVE:
                missed = self._truth.hanging_since(self._clean[0].at) - set(seen.hanging)
                if missed:
                    self.violations.append(
                        f"{self.name} has not found {sorted(missed)} in {CYCLES_TO_PROVE} clean cycles"
                    )

    def _is_clock_stepped(self, at: float) -> bool:
        """True while the exporter's clock is off, and until cycles have begun since."""
        if self._clock is not None and self._clock.ahead_s:
            self._stepped_at = at
        return at - self._stepped_at < STEP_FORGOTTEN_S

    def _judge_starts(self, seen: Seen) -> None:
        before = self.latest
        for key, start_s in seen.hanging.items():
            since_s = self._since_s.get(key, start_s)
            if start_s > since_s + START_SLACK_S:
                self.violations.append(f"{self.name} says that {key} began at {start_s}, and said {since_s} before")
                self._since_s[key] = start_s  # reported once
            lasted_s = seen.longest.get(key[:2], 0.0)
            if not self._is_clock_stepped(seen.at) and lasted_s < seen.snapshot_s - start_s - CLOCK_SLACK_S:
                self.violations.append(f"{self.name} says {lasted_s} s of {key[:2]}, where {key} began at {start_s}")
            # A cycle is published before it is saved: what a second cycle has reported is on the disk.
            if before is not None and before.cycles < seen.cycles and key in before.hanging:
                self._since_s[key] = min(since_s, before.hanging[key])
