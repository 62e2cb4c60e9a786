"""Keeps the state of one cluster between cycles: their results, the last evaluation, and the memory."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Final

from exporter.config.settings import Settings
from exporter.daemon import state_file
from exporter.daemon.kept_file import ANOTHER_CLUSTER, FileVersion, KeptFileError, made_free, recall, version_of
from exporter.daemon.state_file import SavedState
from exporter.doctor.findings import Diagnosis
from exporter.evaluation.gaps import gaps
from exporter.evaluation.memory import Memory
from exporter.evaluation.protection import CHECKS, ProtectionState
from exporter.evaluation.verdicts import Evaluation
from exporter.log_format import LatestState
from exporter.snapshot import ClusterIdentity, Provable
from exporter.snapshot.origin import Protection
from exporter.status import ApiStatistics, ClusterStatus, ProofStatus
from exporter.transaction_log.report import LogPosition, LogReport

log = logging.getLogger("exporter")

_CONTENTS: Final = "first-seen times"
_ITS_SETTINGS: Final = " with the daemon's settings"


class ClusterState:
    """Written by the threads of the loop, in any order."""

    def __init__(self, state_path: Path | None, bootstrap: str) -> None:
        """`state_path` is the state file, None for no file; `bootstrap` has the servers of the settings."""
        self._lock = threading.Lock()
        self._status = ClusterStatus(interval_ms=0, stale_after_cycles=0)
        """Status without the parts that the settings and other threads add."""
        self._missed_in_a_row = 0
        """Cycles since the last snapshot that gave none: failed, or missed because the previous one was still running."""
        self._said: defaultdict[str, LatestState] = defaultdict(LatestState)
        """The state that the log has about each subject."""
        self.evaluation: Evaluation | None = None
        state, self._state_path = recall(state_path, state_file.load, SavedState(), contents=_CONTENTS)
        self.memory: Memory = state.memory
        self.log_position: LogPosition = state.log_position
        """Position up to which the published counts include the transaction log."""
        self.cluster: ClusterIdentity = state.cluster
        """The cluster of the memory, with topics that are missing now."""
        self.is_behind_same_servers = state.bootstrap in {"", bootstrap}
        """False if the state file is of a cluster behind other servers than those of the settings."""
        self._saved: FileVersion | None = None
        """The state file as this process has left it."""

    def succeeded(
        self, evaluation: Evaluation, *, seconds: float, now_ms: int, phases: tuple[tuple[str, float], ...]
    ) -> None:
        """Records the evaluation of a cycle; `keep` stores it."""
        with self._lock:
            self.evaluation = evaluation
            self.memory = evaluation.memory
            self.cluster = self.cluster.updated(evaluation.snapshot.identity)
            self._missed_in_a_row = 0
            self._status = replace(
                self._status,
                cycles=self._status.cycles + 1,
                last_cycle_duration_seconds=seconds,
                last_cycle_succeeded=True,
                last_failure=None,
                last_success_at_ms=now_ms,
                snapshot_taken_at_ms=evaluation.snapshot.taken_at_ms,
                phase_durations=phases,
            )
        self._say("cycle", "cycle succeeded", logging.INFO)
        missing = gaps(evaluation.snapshot)
        self._say(
            "coverage", "; ".join(missing) or "coverage is complete", logging.WARNING if missing else logging.INFO
        )

    def diagnosed(self, diagnosis: Diagnosis, checked_at_ms: int) -> bool:
        """Records if hangs could be proved at that time; returns True if the diagnosis has changed.

        A log line follows when something else is missing, not with every new topic.
        """
        with self._lock:
            before = self._status
            proof = ProofStatus(diagnosis.provable, diagnosis.level, diagnosis.sentence, checked_at_ms)
            self._status = replace(before, proof=proof)
            is_other = self._status.proof != before.proof
        level = logging.INFO if diagnosis.provable is Provable.ALL else logging.WARNING
        more = "" if diagnosis.provable is Provable.ALL else f" Run doctor{_ITS_SETTINGS}."
        self._say("proof", f"{diagnosis.sentence}{more}", level, when_changed=", ".join(diagnosis.problems))
        return is_other

    def protected(self, protection: Protection) -> None:
        """The settings that prevent hanging transactions were read."""
        with self._lock:
            self._status = replace(self._status, protection=protection)
        names: dict[ProtectionState, list[str]] = defaultdict(list)
        for name, check in CHECKS.items():
            names[check(protection).state].append(name)
        sentences = []
        if exposed := ", ".join(names[ProtectionState.EXPOSED]):
            sentences.append(
                f"settings that allow transactions to hang: {exposed}; run doctor --cluster{_ITS_SETTINGS}"
            )
        if unknown := ", ".join(names[ProtectionState.UNKNOWN]):
            sentences.append(f"settings that could not be read: {unknown}")
        self._say("protection", "; ".join(sentences) or "every setting prevents hanging transactions", logging.INFO)

    def failed(self, sentence: str, *, seconds: float) -> None:
        """Records that a cycle has failed with this reason."""
        with self._lock:
            self._missed_in_a_row += 1
            self._status = replace(
                self._status,
                cycles=self._status.cycles + 1,
                failed_cycles=self._status.failed_cycles + 1,
                last_cycle_duration_seconds=seconds,
                last_cycle_succeeded=False,
                last_failure=sentence,
                phase_durations=(),
            )
        self._say("cycle", f"cycle failed: {sentence}", logging.ERROR)

    def missed(self) -> None:
        """Records that a cycle was due while the previous one was still running."""
        with self._lock:
            self._missed_in_a_row += 1
            self._status = replace(self._status, missed_cycles=self._status.missed_cycles + 1)
        self._say("cycle", "cycle missed: the previous one was still running", logging.ERROR)

    def status(
        self,
        settings: Settings,
        api_statistics: tuple[ApiStatistics, ...],
        transaction_log: LogReport | None = None,
    ) -> ClusterStatus:
        """The status now, by the settings in use."""
        stale_after = settings.publish.stale_after_cycles
        with self._lock:
            return replace(
                self._status,
                interval_ms=settings.scan.interval_ms,
                stale_after_cycles=stale_after,
                missed_in_a_row=self._missed_in_a_row,
                is_stale=self.evaluation is not None and self._missed_in_a_row >= stale_after,
                api_statistics=api_statistics,
                transaction_log=transaction_log,
            )

    def replaced(self, cluster: ClusterIdentity) -> str | None:
        """Moves the state file aside if `cluster`, which the settings lead to, is another one; returns the reason then."""
        contradiction = self.cluster.contradiction(cluster)
        if contradiction is None:
            return None
        why = f"other bootstrap servers lead to another cluster, {contradiction}"
        with self._lock:
            self._status = replace(self._status, protection=None, proof=None)
        self._state_path = made_free(self._state_path, ANOTHER_CLUSTER, contents=_CONTENTS, why=why)
        return why

    def keep(self, bootstrap: str) -> None:
        """Writes the state file of the cluster behind these servers."""
        if self._state_path is None:
            return
        if self._saved is not None and version_of(self._state_path) not in (None, self._saved):
            self._say(
                "state file",
                f"another process has written {self._state_path} as well, perhaps a second exporter: give each its own "
                f"state.file, or a restart loses the {_CONTENTS} that only one has",
                logging.WARNING,
            )
        try:
            state_file.save(self._state_path, SavedState(self.memory, self.log_position, self.cluster, bootstrap))
        except KeptFileError as error:
            self._say("state", f"a restart would lose {_CONTENTS}: {error}", logging.WARNING)
        else:
            self._saved = version_of(self._state_path)
            self._say("state", f"{_CONTENTS} are saved in {self._state_path}", logging.INFO)

    def _say(self, subject: str, sentence: str, level: int, *, when_changed: str | None = None) -> None:
        if self._said[subject].is_new(sentence if when_changed is None else when_changed):
            log.log(level, "%s", sentence, extra={"subject": subject})
