"""`make hostile`: the table of hostile brokers in its large form, written into `docs/reliability.md`.

Status 1 where a bound is passed or something untrue is said.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.verification.hostile.judge import complaints
from tests.verification.hostile.measure import once, under
from tests.verification.hostile.peer import Peer
from tests.verification.hostile.shapes import SHAPES

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "reliability.md"
BEGINNING: Final = "<!-- Made by `python -m tests.verification.hostile`. -->\n"
END: Final = "<!-- Until here. -->\n"
HEAD: Final = ("brokers send", "size", "CPU s", "bound", "MB more", "bound", "requests", "bound", "status")


def main() -> int:
    """Run the shapes whose name has one of the arguments in it, or all; the document is written after all."""
    wanted = sys.argv[1:]
    with Peer() as peer:
        idle_mb = once(peer).mb
    rows, failed = [], 0
    for shape in SHAPES:
        if wanted and not any(it in shape.name for it in wanted):
            continue
        size = shape.large or shape.small
        run = under(shape, size)
        wrong = complaints(shape, size.bounds, run, idle_mb)
        failed += bool(wrong)
        sized = "" if shape.large is None else f"{max(size.count, size.nodes):,}"
        bounds = size.bounds
        took = (f"{run.cpu_s:.1f}", f"{bounds.cpu_s:g}", f"{max(run.mb - idle_mb, 0):.0f}", f"{bounds.mb:g}")
        rows.append((shape.name, sized, *took, str(run.requests), str(bounds.requests), str(run.status)))
        print(_line(rows[-1]), *wrong, sep="\n    ", flush=True)
    if not wanted:
        DOCUMENT.write_text(written(DOCUMENT.read_text(), [HEAD, ("---",) * len(HEAD), *rows]))
    print("a bound is passed" if failed else "every bound is kept")
    return 1 if failed else 0


def written(document: str, table: Iterable[tuple[str, ...]]) -> str:
    """The document with this table between the markers."""
    before, rest = document.split(BEGINNING)
    _, after = rest.split(END)
    return before + BEGINNING + "\n" + "".join(_line(row) + "\n" for row in table) + "\n" + END + after


def _line(row: tuple[str, ...]) -> str:
    return "| " + " | ".join(row) + " |"


if __name__ == "__main__":
    sys.exit(main())
