"""The exporter as a detector of HangBench: in this process, so that tests see the evaluation of every look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from exporter.capsules.file import Capsule, pack
from exporter.capsules.sharing import anonymous
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation, Policy, Verdict
from exporter.kafka.errors import ClusterUnavailableError
from hangbench.detector import READS_TWICE, Detector, Look, Question, Response, Says, UnreachableError, When
from tests.watching import Watch

EXPORTER: Final = "exporter"
LIST_OFFSETS: Final = 2
WITHOUT_READ: Final = {**READS_TWICE, When.BEFORE_LAST_READ: (LIST_OFFSETS, 9)}
"""Each end is asked for twice by the first cycle, and before and after the coordinators by the second one."""
IMPATIENT: Final = Policy(max_timeout_fallback_ms=1, late_padding_ms=0)
IMPATIENT_IN: Final = "deny on one id and limits hidden"
CYCLES_KEPT: Final = 10
"""In a capsule, the last ones: some situations are looked at a hundred times."""
ATTENTION: Final = frozenset({Verdict.STUCK_COMPLETING, Verdict.OVERDUE_AT_COORDINATOR, Verdict.REPLICA_DIVERGED})


class ExporterDetector(Detector):
    """Its collector and its memory, cycle after cycle, as the daemon runs them."""

    keeps_looking = True

    def __init__(self, *, may_read: bool = True, capsules: Path | None = None) -> None:
        """`capsules` is a folder for a capsule of each question; without one nothing is recorded."""
        super().__init__(EXPORTER)
        self._may_read, self._capsules = may_read, capsules
        self.moments = READS_TWICE if may_read else WITHOUT_READ
        self.extra_rounds = 0 if may_read else 1  # offsets prove what an earlier cycle has seen

    @contextmanager
    def watching(self, question: Question) -> Iterator[Look]:
        with Watch(
            question.bootstrap,
            user=question.user,
            policy=policy_of(question),
            request_timeout_ms=question.request_timeout_ms,
            clock_ahead_s=question.clock_ahead_s,
            may_read=self._may_read,
            is_recorded=self._capsules is not None,
        ) as watch:

            def look() -> Response:
                try:
                    evaluation = watch.cycle()
                except ClusterUnavailableError as error:
                    raise UnreachableError(str(error)) from error
                return response_of(evaluation)

            yield look
            if self._capsules is not None:
                _write_capsule(self._capsules, watch, question)


def policy_of(question: Question) -> Policy:
    if IMPATIENT_IN in question.situations:
        return IMPATIENT
    if question.grace_ms is None:
        return Policy()
    return Policy(overdue_slack_ms=question.grace_ms, stuck_after_ms=question.grace_ms)


def response_of(evaluation: Evaluation) -> Response:
    """The evaluation in HangBench's words; `detail` is the evaluation."""
    return Response(
        rows={
            (row.topic, row.partition, row.producer_id if row.has_producer else None): says_of(row.verdict)
            for row in all_rows(evaluation)
        },
        is_complete=evaluation.snapshot.is_complete,
        detail=evaluation,
    )


def says_of(verdict: Verdict) -> Says:
    if verdict.is_hanging:
        return Says.HANGING
    if verdict in ATTENTION:
        return Says.ATTENTION
    return Says.UNKNOWN if verdict is Verdict.INCONCLUSIVE else Says.OPEN


def _write_capsule(folder: Path, watch: Watch, question: Question) -> None:
    """Writes the cycles of a question with other names, which keeps paths of this machine out, and its situations."""
    cycles, expected = zip(*watch.recorded[-CYCLES_KEPT:], strict=True)
    capsule = Capsule(cycles=cycles, expected=expected, incident=f"of the situations {', '.join(question.situations)}")
    name = f"{question.cluster.version}-{question.situations[0]}".replace(" ", "-")
    number = len(list(folder.glob(f"{name}*.zip"))) + 1
    path = folder / f"{name}{'' if number == 1 else f'-{number}'}.zip"
    path.write_bytes(pack(anonymous(capsule)))
