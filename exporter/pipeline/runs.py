"""Records a run: a row of the table `runs`, and a small file that the exporter reads. Neither needs Spark.

A run that is killed leaves no row: the next one repeats its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone

from exporter import __version__
from exporter.pipeline.tables import Tables, read_whole, write_whole
from exporter.storage.last_run import FILE_NAME, JobFailure, LastRun, document, parse


def record(
    tables: Tables,
    span_ms: tuple[int, int],
    failures: Sequence[JobFailure],
    *,
    files: int,
    daily_at_ms: int | None = None,
) -> None:
    """`span_ms` are begin and end of the run, `files` of the history were taken. Raises TableError and OSError."""
    started_ms, ended_ms = span_ms
    tables.runs.append(
        {
            "started_at": _instant(started_ms),
            "ended_at": _instant(ended_ms),
            "exporter_version": __version__,
            "files": files,
            "failures": [asdict(failure) for failure in failures],
        }
    )
    succeeded_at_ms: int | None = ended_ms
    if failures:
        last = read_whole(tables.root / FILE_NAME, parse)
        succeeded_at_ms = None if last is None else last.succeeded_at_ms
    run = LastRun(
        started_at_ms=started_ms,
        ended_at_ms=ended_ms,
        succeeded_at_ms=succeeded_at_ms,
        failures=tuple(failures),
        daily_at_ms=daily_at_ms,
    )
    write_whole(tables.root / FILE_NAME, document(run))


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc)
