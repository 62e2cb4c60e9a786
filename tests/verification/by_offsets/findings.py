"""Judges the cycles of a run: which hangs were proved, how soon, and what was called a hang and is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation
from tests.verification.by_offsets.hangs import Hang, Hangs, now_ms
from tests.verification.by_offsets.producers import JournalEntry

RECOVERED_AFTER_MS: Final = 5_000
NOT_ASKED: Final = "not asked yet"
SOON: Final = 3
"""Cycles after the last overlapping candidate has completed."""

Span = tuple[int, int]
"""Begin and end in ms, by the wall clock."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A cycle called the transaction at this place a hang."""

    partition: int
    start_offset: int
    began_ms: int
    sentence: str


@dataclass
class Findings:
    """The cycles of a run."""

    verdicts: Counter[str] = field(default_factory=Counter)
    claims: list[Claim] = field(default_factory=list)
    cycles: int = 0
    failed: int = 0

    def judge(self, cycle: Callable[[], Evaluation], hangs: Hangs, topic: str) -> None:
        """Runs a cycle, and keeps what it calls hangs: a hang may be known later than its verdict."""
        began_ms = now_ms()
        unproved = {(hang.partition, hang.start_offset): hang for hang in hangs.open.values() if not hang.is_proved}
        for hang in unproved.values():
            hang.cycles.append(began_ms)
            hang.sights.append("not seen")
            hang.whole.append(False)
        evaluation = cycle()
        rows = list(all_rows(evaluation))
        self.cycles += 1
        for row in rows:
            self.verdicts[row.verdict.label] += 1
            place = (row.partition if row.topic == topic else -1, row.start_offset)
            if place in unproved:
                missing = _what_is_missing(evaluation)
                facts = evaluation.memory.offsets.get(row.key)
                counts = "" if facts is None else f"{len(facts.excluded)} excluded, {len(facts.starts)} not"
                unproved[place].sights[-1] = f"{row.verdict.label} ({missing or counts})"
                unproved[place].whole[-1] = missing in {"", NOT_ASKED}
            if row.verdict.is_hanging:
                sentence = f"{row.topic}-{row.partition} from {row.start_offset}: {row.verdict.label}, {row.reason}"
                self.claims.append(Claim(*place, began_ms, sentence))
                if place in hangs.every:
                    hangs.every[place].is_proved = True

    def false(self, hangs: Hangs) -> list[str]:
        """Every claim about what was not planted, or was aborted before the cycle began."""

        def is_false(claim: Claim) -> bool:
            hang = hangs.every.get((claim.partition, claim.start_offset))
            return hang is None or (hang.healed_ms is not None and claim.began_ms > hang.healed_ms)

        return list(dict.fromkeys(claim.sentence for claim in self.claims if is_false(claim)))


def _what_is_missing(evaluation: Evaluation) -> str:
    """Why the proof of a cycle is not whole, also where the verdict has no reason of its own; empty if it is."""
    proof = evaluation.snapshot.offset_proof
    if proof is None:
        return NOT_ASKED
    if proof.failure is not None:
        return proof.failure
    if proof.unclear_producer_ids:
        return "changed_while_asked"
    return proof.unconfirmed[0].why if proof.unconfirmed else ""


@dataclass(frozen=True, slots=True)
class Delay:
    """How many cycles a hang took until it was proved, or aborted without a proof."""

    is_proved: bool
    sights: tuple[str, ...]
    since_planted: int
    since_overlapping: int
    """Those that began after each id that was in a transaction there when the hang began had completed that."""
    since_candidates: int
    """Those that began after each id, also of later ones, had completed a transaction there for the first time."""
    whole_since_candidates: int
    """Those of them to which every coordinator responded, and with confirmed leaders."""

    @property
    def is_soon(self) -> bool:
        """Proved within three cycles of the completion of the last candidate."""
        return self.is_proved and self.since_candidates <= SOON

    @property
    def was_due(self) -> bool:
        """False if it was aborted before three cycles could prove it."""
        return self.is_proved or self.since_candidates > SOON


def delay_of(hang: Hang, journal: Iterable[JournalEntry]) -> Delay:
    """The delay of a hang, beside the transactions of the journal."""
    last_ms = hang.cycles[-1] if hang.cycles else hang.planted_ms
    first: dict[str, JournalEntry] = {}
    for entry in sorted(journal, key=lambda entry: entry.begun_ms):
        if hang.partition in entry.partitions and entry.ended_ms >= hang.planted_ms and entry.begun_ms <= last_ms:
            first.setdefault(entry.transactional_id, entry)
    overlapping = [entry.ended_ms for entry in first.values() if entry.begun_ms <= hang.planted_ms]

    last_candidate_ms = max((entry.ended_ms for entry in first.values()), default=hang.planted_ms)

    def cycles_after(instant_ms: int) -> int:
        return sum(began_ms >= instant_ms for began_ms in hang.cycles)

    return Delay(
        hang.is_proved,
        tuple(hang.sights),
        len(hang.cycles),
        cycles_after(max(overlapping, default=hang.planted_ms)),
        cycles_after(last_candidate_ms),
        sum(
            began_ms >= last_candidate_ms
            for began_ms, is_whole in zip(hang.cycles, hang.whole, strict=True)
            if is_whole
        ),
    )


def rate(journal: Iterable[JournalEntry], partition: int, spans: Sequence[Span]) -> float:
    """Transactions a second of the ids that stay on a partition, that ended within these spans."""
    total_ms = sum(end - begin for begin, end in spans)
    ended = [entry.ended_ms for entry in journal if entry.is_busy and partition in entry.partitions]
    return 1000 * sum(any(begin <= at < end for begin, end in spans) for at in ended) / max(total_ms, 1)


def calm(run: Span, faults: Iterable[Span]) -> list[Span]:
    """The parts of a run without a fault, from five seconds after the last one on."""
    spans, begin = [], run[0]
    for fault_begin, fault_end in faults:
        if fault_begin > begin:
            spans.append((begin, fault_begin))
        begin = max(begin, fault_end + RECOVERED_AFTER_MS)
    return [*spans, (begin, run[1])] if begin < run[1] else spans
