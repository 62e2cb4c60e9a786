"""Makes `docs/performance.md` from the figures in `docs/performance.json`; `make generate` writes it.

`python -m benchmarks.document` first copies the last results of `make bench` or `make bench-all` in this tree into those
figures, part by part.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.scan import EXPORTER, FLOOR

ROOT: Final = Path(__file__).parents[1]
FIGURES: Final = ROOT / "docs" / "performance.json"
DOCUMENT: Final = ROOT / "docs" / "performance.md"
BUILT: Final = ROOT / "build" / "benchmarks"
PARTS: Final = ("scan", "processes", "cycles", "scrapes", "growth", "bounds", "memory", "loaded", "fleet")

PEERS: Final = (EXPORTER, "kadm", "Java AdminClient", "kafka-python", FLOOR)
PEER_HEAD: Final = ("", "exporter", "kadm (Go)", "Java AdminClient", "kafka-python", "bare requests")
WIDTH: Final = 124


def document(figures: Mapping[str, Any]) -> str:
    """The whole page."""
    parts = [
        "# Performance\n",
        _prose(
            "The exporter's cost for you and for the cluster: minimum and median, if nothing else is said. Measured on",
            f"{_measured(figures)}, over loopback, next to other load: read the ratios, not the milliseconds.",
        ),
        "## Against other programs\n",
        _prose(
            "One scan of every producer on every partition, in milliseconds; in brackets the CPU time of the client.",
            "*Bare requests* are the exporter's own requests with nothing decoded.",
        ),
        _table(PEER_HEAD, _against_peers(figures)),
        _after_the_table(figures),
        "## Sizing\n",
        _table(("what", "cost"), _sizing(figures)),
        _prose(
            f"A broker with {figures['loaded']['partitions']:,} partitions that was read at the default interval wrote",
            f"{_throughput(figures['loaded'])} of the records per second that it wrote without an exporter.",
            "[reliability.md](reliability.md#bounds) has the limits.",
        ),
        "## When Spark is worth it\n",
        _when_spark(figures["fleet"]),
        _prose(
            "`make bench-all` measures; `performance.json` has all figures.",
        ),
    ]
    return "\n".join(parts)


def _against_peers(figures: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    """Time and CPU for each shape of cluster."""
    for shape in figures["scan"]["shapes"]:
        rows = {row["name"]: row for row in shape["rows"]}
        partitions, producers = shape["title"].split(" x ")
        cells = (_scan_of(rows[peer]) if peer in rows else "not measured" for peer in PEERS)
        yield (f"{partitions} partitions x {producers} producers", *cells)


def _scan_of(row: Mapping[str, Any]) -> str:
    return f"{row['wall_ms_min']:.1f}, {row['wall_ms']:.1f} ({row['cpu_ms_min']:.1f}, {row['cpu_ms']:.1f})"


def _after_the_table(figures: Mapping[str, Any]) -> str:
    """The broker's side of a scan, and the commands as whole processes."""
    ratios = []
    processes = {row["name"]: row for row in figures["processes"]["rows"]}
    once, tool = (
        f"{processes[name]['wall_s_min']:.2f}, {processes[name]['wall_s']:.2f} s"
        for name in ("once", "kafka-transactions.sh find-hanging")
    )
    for shape in figures["scan"]["shapes"]:
        rows = {row["name"]: row for row in shape["rows"]}
        ratios.append(rows[EXPORTER]["broker_cpu_ms"] / rows[FLOOR]["broker_cpu_ms"])
    return _prose(
        f"The broker's CPU for the exporter is {min(ratios):.2f} to {max(ratios):.2f} times that for the same bare",
        f"requests. As whole processes, `once` takes {once}, and `kafka-transactions.sh find-hanging` {tool}.",
    )


def _sizing(figures: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    for kind in figures["cycles"]["kinds"]:
        what = f"CPU of a cycle: {kind['partitions']:,} partitions, {kind['open_transactions']:,} open transactions"
        yield what, f"{kind['cpu_ms_min']:.1f}, {kind['cpu_ms']:.1f} ms"
    growth, memory = figures["growth"]["partitions"], figures["memory"]
    sizes = " / ".join(f"{row['partitions']:,}" for row in growth)
    yield f"peak memory of a cycle: {sizes} partitions", " / ".join(f"{row['peak_mb']:.0f}" for row in growth) + " MB"
    yield (
        f"memory of `serve` in {memory['cycles']:,} cycles: {memory['partitions']:,} partitions",
        f"{memory['resident_mb_at_first']:.0f} MB at first, {memory['resident_mb_at_last']:.0f} MB at last",
    )
    scrapes = figures["scrapes"]
    yield (
        f"scrape of {scrapes['series']:,} series ({scrapes['gzip_bytes'] / 1e3:.0f} kB, gzip)",
        f"{scrapes['p50_ms']:.1f} ms (p50), {scrapes['p99_ms']:.1f} ms (p99), {scrapes['max_ms']:.1f} ms at most",
    )
    serve = figures["fleet"]["serve"]
    yield (
        f"`serve` for {serve['clusters']} clusters with {serve['partitions']:,} partitions, every {serve['interval_s']} s",
        f"{serve['cpu_ms'] / 1000:.1f} s of CPU in each interval, {serve['peak_mb']:.0f} MB at most",
    )
    yield (
        "a cycle with 1,000,000 partitions, open transactions or ids, or 200,000 partitions of `__transaction_state`",
        _of_bounds(figures["bounds"]["rows"]),
    )


def _of_bounds(rows: Sequence[Mapping[str, Any]]) -> str:
    cpu_s = [row[key] for row in rows for key in ("cpu_s_min", "cpu_s_max")]
    peak_mb = [row["peak_mb"] for row in rows]
    return f"{min(cpu_s):.1f} to {max(cpu_s):.1f} s of CPU, {min(peak_mb):.0f} to {max(peak_mb):.0f} MB"


def _throughput(loaded: Mapping[str, Any]) -> str:
    rates = {row["name"]: row["records_per_s"] for row in loaded["rows"]}
    return f"{rates['default interval'] / rates['without']:.0%}".replace("%", " %")


def _when_spark(fleet: Mapping[str, Any]) -> str:
    """From which size on Spark is worth it, on paper."""
    serve = fleet["serve"]
    small, large = serve["lone"][0], serve["lone"][-1]
    million_s = (large["cpu_ms"] - small["cpu_ms"]) / (large["partitions"] - small["partitions"]) * 1000
    half_s = serve["interval_s"] / 2
    jobs = max((row for row in fleet["rows"] if "two" in row["name"]), key=lambda row: row["clusters"])
    job_ms = jobs["wall_s"] / jobs["clusters"] * 1000
    return _prose(
        f"From about {half_s / million_s:,.0f} million partitions on: there they take one processor half of the time",
        f"({million_s:.1f} s for each million, every {serve['interval_s']} s). Many small clusters are never faster on",
        f"Spark, because each cycle is a job, which takes {job_ms:.0f} ms. This is computed, for brokers as fast as here",
        "and nearly no open transaction.",
    )


def _measured(figures: Mapping[str, Any]) -> str:
    """When and with what, of all parts."""
    parts = [figures[part]["measured"] for part in PARTS]
    dates = sorted({part["date"] for part in parts})
    newest = max(parts, key=lambda part: str(part["date"]))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{when} with Kafka {newest['kafka']}, Python {newest['python']}, Java {newest['java']}, {newest['cores']} cores"


def _prose(*pieces: str) -> str:
    """One paragraph."""
    return textwrap.fill(" ".join(pieces), WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def main() -> None:
    """Copy the new measurements into the figures and write the page."""
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for part in PARTS:
        if (measured := BUILT / f"{part}.json").exists():
            figures[part] = json.loads(measured.read_text())
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    DOCUMENT.write_text(document(figures))


if __name__ == "__main__":
    main()
