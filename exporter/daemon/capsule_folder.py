"""Keeps the cycles around each incident in a folder beside the state file, within a limit of bytes: the oldest go first."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from exporter.capsules.file import Capsule, expected_of, pack
from exporter.capsules.recording import RING_CYCLES_MAX, RingCycle
from exporter.files import atomic_write
from exporter.incidents.incident import Incidents
from exporter.log_format import LatestState

log = logging.getLogger("exporter")


def folder_beside(state_path: Path) -> Path:
    """`state-x.capsules` for `state-x.json`."""
    return state_path.with_suffix(".capsules")


def recorded_files(state_path: Path, incident_id: str) -> list[Path]:
    """The recorded cycles of an incident, the oldest first."""
    return sorted(folder_beside(state_path).glob(f"{incident_id}-*.zip"))


def reasons_to_keep(before: Incidents, after: Incidents) -> Mapping[tuple[str, int], Sequence[str]]:
    """(incident, -1 for the newest cycle or -2 for the one before) -> why it is kept, for each cycle to keep. Pure."""
    reasons: dict[tuple[str, int], list[str]] = defaultdict(list)
    for incident in () if after is before else after.all:
        earlier = before.named(incident.id)
        known = {} if earlier is None else {suspect.key: suspect for suspect in earlier.suspects}
        for suspect in incident.suspects:
            old = known.get(suspect.key)
            if old is None:
                reasons[incident.id, -1].append("first sight")
            elif old.verdict is not suspect.verdict:
                reasons[incident.id, -1].append(f"verdict {suspect.verdict.label}")
            if old is not None and old.ended_at_ms is None and suspect.ended_at_ms is not None:
                reasons[incident.id, -2].append("last cycle before its end")
                reasons[incident.id, -1].append("its end")
    return {place: tuple(dict.fromkeys(why)) for place, why in reasons.items()}


class CapsuleFolder:
    """The folder of one cluster. A cycle that cannot be kept is logged once; nothing else depends on it."""

    def __init__(self, ring: Sequence[RingCycle], state_path: Path, limit_bytes: int) -> None:
        """`ring` has the latest cycles, the newest last."""
        self._ring = ring
        self._folder = folder_beside(state_path)
        self._limit_bytes = limit_bytes
        self._said = LatestState()
        self._kept_for: dict[Path, tuple[str, ...]] = {}
        """Reasons of the files that were written last: a cycle may be kept again for another one."""

    def keep(self, before: Incidents, after: Incidents) -> None:
        """Writes the cycles that changed an incident, and removes the oldest files beyond the limit."""
        reasons = reasons_to_keep(before, after)
        try:
            # Once for all incidents: the next cycle waits for it.
            places = {place for _, place in reasons if len(self._ring) >= -place}
            expected = {place: expected_of(self._ring[place].evaluation) for place in places}
            for (incident_id, place), why in reasons.items():
                if place in expected:
                    self._write(incident_id, self._ring[place], expected[place], tuple(why))
            if reasons:
                self._remove_oldest()
        except Exception as error:  # noqa: BLE001 - a record that cannot be made never ends a cycle
            if self._said.is_new(str(error)):
                log.warning("cycles around incidents are not recorded in %s: %s", self._folder, error)

    def _write(self, incident_id: str, cycle: RingCycle, expected: bytes, reasons: tuple[str, ...]) -> None:
        path = self._folder / f"{incident_id}-{cycle.evaluation.snapshot.taken_at_ms:015}.zip"
        reasons = tuple(dict.fromkeys((*self._kept_for.get(path, ()), *reasons)))
        self._kept_for = {**dict([*self._kept_for.items()][-RING_CYCLES_MAX:]), path: reasons}
        capsule = Capsule(cycles=(cycle.recorded(reasons),), expected=(expected,), incident=incident_id)
        content = pack(capsule, level=1)  # the next cycle of the cluster waits for it
        if len(content) <= self._limit_bytes:
            with atomic_write(path, beside=f"{path.name}.tmp") as file:
                file.write(content)

    def _remove_oldest(self) -> None:
        # Also what a killed process has left of a write.
        files = sorted(self._folder.glob("*.zip*"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        total = 0
        for path in files:
            total += path.stat().st_size
            if total > self._limit_bytes:
                path.unlink()
