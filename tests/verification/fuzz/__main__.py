"""`make fuzz`: runs every target under a coverage-guided fuzzer, FUZZ_SECONDS (60) each, and prints a table.

Inputs that reach something new are kept in `build/fuzz/<target>/` for the next run, and so is what makes a reader fail: a
test with those bytes is the first part of its mending. Status 1 when something failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.verification.fuzz.targets import TARGETS

SECONDS: Final = int(os.environ.get("FUZZ_SECONDS", "60"))
FOLDER: Final = Path("build/fuzz")


def main() -> int:
    """Run the targets named, or all; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", metavar="TARGET", help=f"fuzz this only: {', '.join(TARGETS)}")
    wanted = parser.parse_args().target
    failed = 0
    print(f"{'target':34}{'inputs':>12}{'edges':>8}{'kept':>8}  found")
    for name in wanted or TARGETS:
        folder = folder_of(name)
        (folder / "kept").mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(TARGETS[name].seeds):
            (folder / "kept" / f"seed-{number}").write_bytes(seed)
        run = subprocess.run(
            [sys.executable, "-m", "tests.verification.fuzz.one", name, str(folder), str(SECONDS)],
            capture_output=True,
            text=True,
            check=False,
        )
        output = run.stdout + run.stderr
        (folder / "log.txt").write_text(output)
        inputs = re.findall(r"Done (\d+) ", output) or re.findall(r"^#(\d+)", output, re.MULTILINE) or ["?"]
        edges = re.findall(r"cov: (\d+)", output) or ["?"]
        kept = len(list((folder / "kept").iterdir()))
        found = "nothing" if run.returncode == 0 else f"a failure: see {folder}"
        failed += run.returncode != 0
        print(f"{name:34}{inputs[-1]:>12}{edges[-1]:>8}{kept:>8}  {found}", flush=True)
    return 1 if failed else 0


def folder_of(name: str) -> Path:
    """Where a target's inputs are kept."""
    return FOLDER / re.sub(r"\W+", "-", name.lower())


if __name__ == "__main__":
    sys.exit(main())
