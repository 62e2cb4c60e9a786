"""Makes every cause on real brokers, and prints which one `explain` names: `python -m tests.verification.causes`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from exporter.explain.causes import Cause
from tests.real_brokers.exporting import ended
from tests.verification.causes.scenes import SCENES, Made

NO_CAUSE = "no cause"
DOCUMENT = Path(__file__).with_name("README.md")
START, END = "<!-- causes: made by `python -m tests.verification.causes --write` -->\n", "<!-- end of causes -->"


def named(made: Made, folder: Path, *options: str) -> dict[str, object]:
    """The JSON of `explain`."""
    place = ("--topic", made.topic, "--partition", "0", "--start-offset", str(made.start_offset))
    done = ended(
        folder,
        *("explain", "--bootstrap-server", made.bootstrap, *place, "--format", "json"),
        *("--verdicts.stuck-after", "2s", *options),
    )
    assert done.stdout, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.verification.causes", description=__doc__)
    parser.add_argument("--kafka", nargs="*", default=["4.3.1", "3.9.1"])
    parser.add_argument("--only", nargs="*", default=list(SCENES), choices=list(SCENES))
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--show", action="store_true", help="print each explanation")
    options = parser.parse_args()
    counts: Counter[tuple[str, str, str]] = Counter()
    for name in options.only:
        for version in options.kafka * options.repetitions:
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder, SCENES[name](version) as made:
                made_after_s = time.monotonic() - began
                found = named(made, Path(folder))
            truth, cause = label(made.cause), str(found["cause"] or NO_CAUSE)
            counts[name, truth, cause] += 1
            print(f"{name} on {version}: {cause} (made in {made_after_s:.1f} s, {found['verdict']})", flush=True)
            if options.show or cause == "unknown":
                print(json.dumps(found, indent=1))
    wrong = [row for row in counts if row[2] not in {row[1], Cause.UNKNOWN.value}]
    versions = " and ".join(options.kafka)
    text = f"{options.repetitions} times each on {versions}.\n\n{table(counts)}"
    print("\n" + text)
    if options.write:
        before, _, rest = DOCUMENT.read_text().partition(START)
        DOCUMENT.write_text(before + START + text + END + rest.partition(END)[2])
    print(f"{counts.total()} made, {sum(counts[row] for row in wrong)} named wrongly")
    return 1 if wrong else 0


def label(cause: Cause | None) -> str:
    return NO_CAUSE if cause is None else cause.value


def table(counts: Mapping[tuple[str, str, str], int]) -> str:
    """Made and named, as Markdown."""
    head = "| situation | made | named | times |\n|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} | {times} |\n" for row, times in counts.items())


if __name__ == "__main__":
    sys.exit(main())
