"""What a process holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Resources:
    """Of one process, as Linux reports them."""

    memory_mb: float
    """Resident."""
    threads: int
    descriptors: int

    @classmethod
    def of(cls, process_id: int) -> Resources:
        """As of now."""
        status = Path(f"/proc/{process_id}/status").read_text()
        found = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.split()[1:]}
        descriptors = len(list(Path(f"/proc/{process_id}/fd").iterdir()))
        return cls(round(int(found["VmRSS"]) / 1024, 1), int(found["Threads"]), descriptors)
