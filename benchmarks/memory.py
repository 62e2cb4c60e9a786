"""Memory of a real `serve` over 1,000 cycles of 100,000 partitions, one idle producer on each. The cluster replays."""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.contestants import peak_mb
from benchmarks.replaying import replaying
from benchmarks.serving import serving

CYCLES: Final = 1_000
WARM_UP_CYCLES: Final = 50
INTERVAL_MS: Final = 250
DEADLINE_MS: Final = 240


def measure() -> dict[str, Any]:
    """Resident memory when it has settled, and at the end."""
    with (
        replaying(999, 100, 1) as address,
        serving(address, interval_ms=INTERVAL_MS, deadline_ms=DEADLINE_MS) as exporter,
    ):
        exporter.wait_for_cycles(WARM_UP_CYCLES)
        samples = []
        while (cycles := exporter.cycles()) < CYCLES:
            samples.append((cycles, exporter.resident_mb()))
            time.sleep(5)
        samples.append((cycles, exporter.resident_mb()))
        third = len(samples) // 3
        return {
            "partitions": 99_908,
            "cycles": cycles,
            "missed_cycles": exporter.missed_cycles(),
            "resident_mb_at_first": sum(mb for _, mb in samples[:third]) / third,
            "resident_mb_at_last": sum(mb for _, mb in samples[-third:]) / third,
            "peak_mb": peak_mb(exporter.pid),
        }
