"""`make bench` and `make bench-all`: measures the parts named, or the short ones, and keeps each as JSON.

Ends with status 1 where nothing could be measured. What the figures mean is in `docs/performance.md`; `python -m
benchmarks.document` takes into it what was measured last, and `python -m benchmarks.goals` compares it with the goals.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks import bounds, cycles, fleet, growth, loaded, memory, processes, scan, scrapes
from benchmarks.peers import BUILT, go_version, java_version
from benchmarks.shapes import KAFKA
from hangbench.kafka.maven import BrokersUnavailable

SHORT: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "scan": scan.measure,
    "processes": processes.measure,
    "cycles": cycles.measure,
    "scrapes": scrapes.measure,
}
LONG: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "growth": growth.measure,
    "bounds": bounds.measure,
    "memory": memory.measure,
    "loaded": loaded.measure,
    "fleet": fleet.measure,
}


def main(words: list[str]) -> int:
    """Measure these parts; `all` is every one."""
    parts = SHORT | LONG if words == ["all"] else {word: (SHORT | LONG)[word] for word in words} or SHORT
    BUILT.mkdir(parents=True, exist_ok=True)
    for name, measure in parts.items():
        began = time.monotonic()
        print(f"{name}:", flush=True)
        try:
            figures = measure()
        except BrokersUnavailable as failure:
            print(f"bench: {failure}", file=sys.stderr)
            return 1
        kept = {"measured": {**_circumstances(), "seconds": round(time.monotonic() - began)}, **figures}
        (BUILT / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
        print(json.dumps(figures, indent=1), flush=True)
    print(f"kept in {BUILT}")
    return 0


def _circumstances() -> dict[str, Any]:
    memory_kb = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "kafka": KAFKA,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "kafka-python": version("kafka-python"),
        "java": java_version(),
        "go": go_version(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_kb / 2**20),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
