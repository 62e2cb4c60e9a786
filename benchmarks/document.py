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

from benchmarks.goals import goals

ROOT: Final = Path(__file__).parents[1]
FIGURES: Final = ROOT / "docs" / "performance.json"
DOCUMENT: Final = ROOT / "docs" / "performance.md"
BUILT: Final = ROOT / "build" / "benchmarks"
PARTS: Final = ("scan", "processes", "cycles", "scrapes", "growth", "bounds", "memory", "loaded", "fleet")

HEAD: Final = (
    "Made by `make generate` from the figures in `performance.json`. `make bench` measures scans,",
    "processes, cycles and scrapes within ten minutes on two cores, `make bench-all` the rest as well. One broker,",
    "loopback, a machine with other load: medians vary within a run, so ratios are medians of the ratios within one",
    "round, CPU is the kernel's CPU time of each process with all its threads, and minima are given. Reasons:",
    "[decision 0016](decisions/0016-speed.md).",
)
WIDTH: Final = 124


def document(figures: Mapping[str, Any]) -> str:
    """The whole page."""
    parts = [
        "# Performance\n",
        _prose(*HEAD),
        "## Goals\n",
        _table(("what", "goal", "measured", "", "what limits it"), goals(figures)),
        *_scan(figures["scan"]),
        *_processes(figures["processes"]),
        *_cycles(figures["cycles"]),
        *_scrapes(figures["scrapes"], figures["memory"]),
        *_growth(figures["growth"]),
        *_bounds(figures["bounds"]),
        *_loaded(figures["loaded"]),
        *_fleet(figures["fleet"]),
    ]
    return "\n".join(parts)


def _scan(scan: Mapping[str, Any]) -> Iterable[str]:
    yield "## One scan\n"
    yield _prose(
        f"Every producer of every partition, warm, median of {scan['rounds']} rounds. *Floor*: the exporter's own",
        "requests, encoded before, every response received, nothing decoded. kafka-python, Java and kadm also find",
        "the leaders. *Ratio* is the ratio to the floor in the same round.",
    )
    for shape in scan["shapes"]:
        yield (
            f"{shape['name']}: {shape['title']}, {shape['entries']:,} entries, {shape['wire_bytes'] / 1e6:.2f} MB in "
            f"{shape['requests']} requests\n"
        )
        yield _table(
            ("", "ratio", "ms", "min", "client CPU ms", "min", "broker CPU ms", "min", "peak MB"),
            (
                (
                    row["name"],
                    f"{row['floor_ratio']:.2f}",
                    *(f"{row[key]:.1f}" for key in ("wall_ms", "wall_ms_min", "cpu_ms", "cpu_ms_min")),
                    *(f"{row[key]:.0f}" for key in ("broker_cpu_ms", "broker_cpu_ms_min", "peak_mb")),
                )
                for row in shape["rows"]
            ),
        )
    yield _measured(scan)


def _processes(processes: Mapping[str, Any]) -> Iterable[str]:
    yield "## Whole processes\n"
    yield f"A new process each time, {processes['shape']} partitions x entries, {processes['rounds']} rounds.\n"
    yield _table(
        ("", "s", "min", "CPU s"),
        ((row["name"], *(f"{row[key]:.2f}" for key in ("wall_s", "wall_s_min", "cpu_s"))) for row in processes["rows"]),
    )
    yield _measured(processes)


def _cycles(cycles: Mapping[str, Any]) -> Iterable[str]:
    yield "## Whole cycles\n"
    yield _prose(
        f"Client CPU in ms, medians of {cycles['rounds']}. `quiet` and `busy` are read from a real broker, `large` from",
        "a broker that replays responses. `collect` is metadata, scan, coordinators, descriptions and offsets.",
    )
    phases = list(cycles["kinds"][0]["phases"])
    yield _table(
        ("", "partitions", "open", "transactional ids", *phases, "all", "min"),
        (
            (
                kind["name"],
                *(f"{kind[key]:,}" for key in ("partitions", "open_transactions", "transactional_ids")),
                *(f"{kind['phases'][phase]['cpu_ms']:.1f}" for phase in phases),
                f"{kind['cpu_ms']:.1f}",
                f"{kind['cpu_ms_min']:.1f}",
            )
            for kind in cycles["kinds"]
        ),
    )
    yield _measured(cycles)


def _scrapes(scrapes: Mapping[str, Any], memory: Mapping[str, Any]) -> Iterable[str]:
    yield "## Scrapes and memory\n"
    yield _prose(
        f"`serve` with a cycle every second on {scrapes['series']:,} series: {scrapes['scrapes']:,} scrapes of",
        f"{scrapes['gzip_bytes'] / 1e3:.0f} kB (gzip) during {scrapes['cycles_meanwhile']} cycles took",
        f"{scrapes['p50_ms']:.1f} ms (p50), {scrapes['p99_ms']:.1f} ms (p99), at most {scrapes['max_ms']:.1f} ms.",
        f"A cycle took {scrapes['cycle_ms']:.0f} ms, and {scrapes['cycle_ms_crowded']:.0f} ms with",
        f"{scrapes['scrapers_at_once']} scrapers at once, of which the server accepts 64.",
    )
    yield _measured(scrapes)
    yield _prose(
        f"`serve` with {memory['partitions']:,} partitions: {memory['resident_mb_at_first']:.0f} MB resident in the first",
        f"third of {memory['cycles']:,} cycles, {memory['resident_mb_at_last']:.0f} MB in the last,",
        f"{memory['peak_mb']:.0f} MB at most. {memory['missed_cycles']} more cycles were missed: the interval was a",
        "quarter of a second.",
    )
    yield _measured(memory)


def _growth(growth: Mapping[str, Any]) -> Iterable[str]:
    yield "## Growth\n"
    yield _prose(
        "Whole cycles against a broker that replays responses: collect, evaluate, render with a series for each partition."
    )
    yield _table(
        ("partitions", "producers on each", "ms", "CPU ms", "min", "peak MB"),
        (
            (
                f"{row['partitions']:,}",
                f"{row['producers']:,}",
                *(f"{row[key]:.1f}" for key in ("wall_ms", "cpu_ms", "cpu_ms_min")),
                f"{row['peak_mb']:.0f}",
            )
            for row in (*growth["partitions"], *growth["producers"])
        ),
    )
    yield _measured(growth)


def _bounds(bounds: Mapping[str, Any]) -> Iterable[str]:
    yield "## Bounds\n"
    yield _prose(
        f"Whole cycles at sizes that a cluster should not have, {bounds['rounds']} in a row, including the first one,",
        "with the default settings, against a broker whose responses are made of columns. CPU is that of the",
        "exporter's process. Transactions beyond `scan.transactions_limit` are counted, and inconclusive:",
        "[reliability.md](reliability.md).",
    )
    yield _table(
        ("", "CPU s, min", "max", "goal", "peak MB", "goal"),
        (
            (
                row["title"],
                *(f"{row[key]:.1f}" for key in ("cpu_s_min", "cpu_s_max")),
                f"≤ {row['cpu_s_goal']:g}",
                f"{row['peak_mb']:.0f}",
                f"≤ {row['peak_mb_goal']:g}",
            )
            for row in bounds["rows"]
        ),
    )
    yield _measured(bounds)


def _loaded(loaded: Mapping[str, Any]) -> Iterable[str]:
    yield "## Effect on a loaded broker\n"
    yield _prose(
        f"A broker of {loaded['partitions']:,} partitions. {loaded['rate_per_s']} records a second go to a partition",
        f"without history (thin) and to a partition with {loaded['fat_entries']:,} producer states (fat), with acks=all;",
        "then one producer writes as fast as it can. Medians of",
        f"{loaded['rounds']} windows of {loaded['window_s']:.0f} s, one row after the other. A scan holds a partition's",
        "producer-state lock while it copies the entries. The last column is the ratio to the first row.",
    )
    yield _table(
        ("exporter", "thin p50 ms", "thin p99 ms", "fat p50 ms", "fat p99 ms", "records/s", "ratio"),
        (
            (
                row["name"],
                *(f"{row[key]:.2f}" for key in ("thin_p50_ms", "thin_p99_ms", "fat_p50_ms", "fat_p99_ms")),
                f"{row['records_per_s']:,.0f}",
                f"{row['records_per_s'] / loaded['rows'][0]['records_per_s']:.2f}",
            )
            for row in loaded["rows"]
        ),
    )
    yield _measured(loaded)


def _fleet(fleet: Mapping[str, Any]) -> Iterable[str]:
    yield "## Many clusters\n"
    yield _prose(
        f"All clusters of a fleet once, at the same time; medians of {fleet['rounds']}. Each cluster is one broker that",
        "replays responses, on the same cores. Each executor has one core. CPU is that of all processes of an engine.",
    )
    yield _table(
        ("", "clusters", "partitions", "s", "min", "max", "CPU s"),
        (
            (
                row["name"],
                f"{row['clusters']:,}",
                f"{row['partitions']:,}",
                *(f"{row[key]:.2f}" for key in ("wall_s", "wall_s_min", "wall_s_max", "cpu_s")),
            )
            for row in fleet["rows"]
        ),
    )
    yield _served(fleet["serve"])
    yield _measured(fleet)
    yield _when_spark(fleet)


def _served(serve: Mapping[str, Any]) -> str:
    return _prose(
        f"One `serve` with {serve['clusters']} clusters of 5 to 50,000 partitions ({serve['partitions']:,} together), and",
        f"{serve['silent']} that accept connections and never respond, every {serve['interval_s']} s:",
        f"{serve['cpu_ms'] / 1000:.1f} s of processor an interval, {serve['cpu_ratio']:.2f} of what a process for each",
        f"cluster would take; {serve['peak_mb']:.0f} MB at most (60 MB and 1 kB for each partition would be",
        f"{serve['memory_limit_mb']:,.0f}); a scrape takes {serve['p50_ms']:.1f} ms (median of {serve['scrapes']:,}), and",
        f"{serve['p99_ms']:.1f} ms at the 99th percentile; the others missed {serve['missed_by_others']} cycles, and the",
        f"longest of their last cycles took {serve['longest_cycle_s']:.2f} s.",
    )


def _when_spark(fleet: Mapping[str, Any]) -> str:
    """From which size on Spark is worth it, on paper."""
    serve = fleet["serve"]
    small, large = serve["lone"][0], serve["lone"][-1]
    cluster_ms = serve["cpu_ms"] / serve["clusters"]
    million_s = (large["cpu_ms"] - small["cpu_ms"]) / (large["partitions"] - small["partitions"]) * 1000
    half_s = serve["interval_s"] / 2
    jobs = max((row for row in fleet["rows"] if "two" in row["name"]), key=lambda row: row["clusters"])
    job_ms = jobs["wall_s"] / jobs["clusters"] * 1000
    return _prose(
        f"**When Spark is worth it**, on paper: one process takes {cluster_ms:.0f} ms for a cycle of such a cluster with",
        f"its publication, and {million_s:.1f} s more for each million partitions. With half of {2 * half_s:.0f} s free",
        f"it reads {half_s * 1000 / cluster_ms:,.0f} clusters. A job of Spark takes {job_ms:.0f} ms here, most of it in",
        "the driver, so many small clusters are never faster on Spark. It is worth it where partitions, not the number of",
        f"clusters, take more than half of a processor: from about {half_s / million_s:,.0f} million partitions on.",
        "Assumptions: brokers respond as fast as here, nearly no transaction is open, the driver renders what executors",
        "have read (a tenth of the work), and workers have cores of their own.",
    )


def _measured(part: Mapping[str, Any]) -> str:
    """When, with what, and by which command."""
    measured = part["measured"]
    go = "" if measured["go"] is None else f", {measured['go']}"
    return _prose(
        f"{measured['date']}, Kafka {measured['kafka']}, Python {measured['python']}, numpy {measured['numpy']},",
        f"kafka-python {measured['kafka-python']}, Java {measured['java']}{go}, {measured['cores']} cores,",
        f"{measured['memory_gb']} GB; `{measured['command']}`.",
    )


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
