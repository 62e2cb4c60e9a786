"""Plays situations in which somebody stands still, or nobody does, on real brokers; writes the table of README.md.

With `--version` or `--only` a part is played, and nothing is written: the table needs all of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time

from hangbench.parties.scenes import SITUATIONS, VERSIONS
from tests.verification.endings import status_without_writing
from tests.verification.standstill.play import play
from tests.verification.standstill.table import DOCUMENT, document


def main() -> int:
    """Returns 1 where the exporter differs from what is expected, or a situation could not be made."""
    arguments = _parser().parse_args()
    chosen = [situation for situation in SITUATIONS if not arguments.only or situation.name in arguments.only]
    results, wrong = {}, []
    for version in arguments.version or VERSIONS:
        began_s = time.monotonic()
        results[version] = play(version, chosen)
        print(f"{version}: {len(results[version])} situations, {time.monotonic() - began_s:.0f} s", flush=True)
        for name, result in results[version].items():
            words = result.failure or "; ".join(result.wrong) or "; ".join(result.differs) or "right"
            seconds = "/".join(f"{each:.1f}" for each in result.right_after_s)
            print(f"  {name}: {words} ({seconds} s)", flush=True)
            if not result.is_as_expected:
                wrong.append(f"{version} {name}: {words}")
    status = status_without_writing(wrong, is_part=bool(arguments.version or arguments.only))
    if status is not None:
        return status
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    DOCUMENT.write_text(document(DOCUMENT.read_text(encoding="utf-8"), results, today), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.verification.standstill", description=__doc__)
    parser.add_argument(
        "--version", action="append", choices=VERSIONS, help="play on this version of Kafka only; repeatable"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=[situation.name for situation in SITUATIONS],
        help="play these situations only, by their names",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
