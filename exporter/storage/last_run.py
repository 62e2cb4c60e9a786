"""The last run of the pipeline: the small file that it writes beside its report, and that the exporter reads.

{"format": "kafka-transaction-exporter run", "started_at_ms": 0, "ended_at_ms": 0, "succeeded_at_ms": 0 or null,
 "failures": [{"job": "incidents", "reason": "..."}], "daily_at_ms": 0 or null}
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

FILE_NAME: Final = "last_run.json"
FORMAT: Final = "kafka-transaction-exporter run"
BYTES_MAX: Final = 1_000_000
_OTHER: Final = "it is not the file of a pipeline's run"


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job of the run, and the sentence that it failed with."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    started_at_ms: int
    ended_at_ms: int
    succeeded_at_ms: int | None
    """End of the newest run without a failure; None if none is known."""
    failures: tuple[JobFailure, ...] = ()
    daily_at_ms: int | None = None
    """Begin of the newest run with the jobs of once a day; None in files of older versions."""


def document(run: LastRun) -> str:
    return json.dumps({"format": FORMAT, **asdict(run)}, indent=1)


def parse(text: str) -> LastRun:
    """Raises ValueError, with a sentence, if the text is not such a file."""
    try:
        content = json.loads(text)
        succeeded_at_ms, daily_at_ms = content["succeeded_at_ms"], content.get("daily_at_ms")
        run = LastRun(
            started_at_ms=int(content["started_at_ms"]),
            ended_at_ms=int(content["ended_at_ms"]),
            succeeded_at_ms=None if succeeded_at_ms is None else int(succeeded_at_ms),
            failures=tuple(JobFailure(str(each["job"]), str(each["reason"])) for each in content["failures"]),
            daily_at_ms=None if daily_at_ms is None else int(daily_at_ms),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ValueError(_OTHER) from None
    if content.get("format") != FORMAT:
        raise ValueError(_OTHER)
    return run
