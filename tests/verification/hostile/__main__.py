"""`make hostile`: writes the tables of brokers and web clients, in large sizes, into README.md.

Status 1 where a bound is passed or something untrue is said.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from tests.kafka.loopback import HOST
from tests.verification.hostile.attacks import many_topics
from tests.verification.hostile.judge import complaints
from tests.verification.hostile.measure import once, under
from tests.verification.hostile.peer import Peer
from tests.verification.hostile.shapes import SHAPES
from tests.verification.hostile.web import CROWDS, TOPICS, besieged, opened

DOCUMENT: Final = Path(__file__).with_name("README.md")
BEGINNING: Final = "<!-- Made by `python -m tests.verification.hostile`. -->\n"
END: Final = "<!-- Until here. -->\n"
HEAD: Final = ("brokers send", "size", "CPU s", "bound", "MB more", "bound", "requests", "bound", "status")
WEB_HEAD: Final = (
    "strangers at the web server",
    "connections",
    "visits",
    "scrapes and probes served",
    "MB more",
    "bound",
)

Row = tuple[str, ...]


def main() -> int:
    """Run the rows whose name has one of the arguments in it, or all; the document is written after all."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.hostile", description=__doc__)
    parser.add_argument("word", nargs="*", metavar="WORD", help="only rows with this in their name; nothing is written")
    wanted = parser.parse_args().word
    brokers, broken = _brokers(wanted)
    crowds, shut_out = _crowds(wanted)
    if not wanted:
        tables = [[HEAD, ("---",) * len(HEAD), *brokers], [WEB_HEAD, ("---",) * len(WEB_HEAD), *crowds]]
        DOCUMENT.write_text(written(DOCUMENT.read_text(), tables))
    print("a bound is passed" if broken or shut_out else "every bound is kept")
    return 1 if broken or shut_out else 0


def _is_wanted(name: str, wanted: list[str]) -> bool:
    return not wanted or any(part in name for part in wanted)


def _brokers(wanted: list[str]) -> tuple[list[Row], int]:
    """A row for each shape, and how many have something wrong with them."""
    with Peer() as peer:
        idle_mb = once(peer).mb
    rows: list[Row] = []
    failed = 0
    for shape in SHAPES:
        if not _is_wanted(shape.name, wanted):
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
    return rows, failed


def _crowds(wanted: list[str]) -> tuple[list[Row], int]:
    """A row for each crowd, with and without TLS, and how many kept the scraper or the probe out."""
    rows: list[Row] = []
    failed = 0
    for with_tls in (False, True):
        with Peer() as peer, tempfile.TemporaryDirectory() as folder:
            many_topics(peer, TOPICS)
            with opened(Path(folder), f"{HOST}:{peer.ports[1]}", with_tls=with_tls) as door:
                for crowd in CROWDS:
                    if (crowd.only_tls and not with_tls) or not _is_wanted(crowd.name, wanted):
                        continue
                    siege = besieged(door, crowd, crowd.large, times=20)
                    served = [status == HTTPStatus.OK for status in (*siege.scrapes, *siege.probes)]
                    failed += not all(served) or siege.grew_mb > crowd.mb
                    protocol = "TLS" if with_tls else "HTTP"
                    memory = (f"{max(siege.grew_mb, 0):.0f}", f"{crowd.mb:g}")
                    came = (f"{crowd.large:,}", f"{siege.visits:,}", f"{sum(served)} of {len(served)}")
                    rows.append((f"{crowd.name}, {protocol}", *came, *memory))
                    print(_line(rows[-1]), flush=True)
    return rows, failed


def written(document: str, tables: Iterable[Iterable[Row]]) -> str:
    """The document with these tables between the markers."""
    before, rest = document.split(BEGINNING)
    _, after = rest.split(END)
    return (
        before
        + BEGINNING
        + "".join("\n" + "".join(_line(row) + "\n" for row in rows) for rows in tables)
        + "\n"
        + END
        + after
    )


def _line(row: Row) -> str:
    return "| " + " | ".join(row) + " |"


if __name__ == "__main__":
    sys.exit(main())
