"""Judges how the exporter handled an attack, one sentence for each problem."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from exporter.commands.status import ExitStatus
from tests.kafka.scene import HANGING, UNKNOWN
from tests.verification.hostile.measure import Run
from tests.verification.hostile.shapes import Bounds, Shape


def complaints(shape: Shape, bounds: Bounds, run: Run, idle_mb: float) -> tuple[str, ...]:
    """Empty where everything is as it should be."""
    return (*_said(shape, run), *_untrue(shape, run), *_raw(shape, run), *_passed(bounds, run, idle_mb))


def _said(shape: Shape, run: Run) -> Iterator[str]:
    if "Traceback" in run.errors or run.status not in ExitStatus._value2member_map_:
        yield f"it failed with status {run.status}: {run.errors[-500:]}"
    elif run.status not in shape.status:
        yield f"its status is {run.status}, and not one of {sorted(shape.status)}: {run.errors[:500]}"
    if not re.search(shape.says, run.out + run.errors):
        yield f"{shape.says!r} is not said"
    if run.document and run.document["coverage"]["complete"] != (run.status == ExitStatus.ANSWERED):
        yield "status and coverage do not agree"


def _untrue(shape: Shape, run: Run) -> Iterator[str]:
    """The transactions of the undisturbed cluster are called hanging only where they hang."""
    verdicts = {
        (row["topic"], row["partition"], row["producer_id"]): row["verdict"]
        for row in run.document.get("transactions", ())
    }
    for (topic, partition, producer_id), verdict in verdicts.items():
        wanted = HANGING.get((topic, partition, producer_id))
        is_ours = producer_id < 1000 and topic in {"hung", "mixed", "lively"}
        if is_ours and verdict.startswith("hanging_") and (wanted is None or verdict != wanted.label):
            yield f"{topic}-{partition}, producer {producer_id} is called {verdict}"
    is_proved = verdicts.get(UNKNOWN, "").startswith("hanging_")
    if shape.proves is not None and is_proved != shape.proves:
        yield f"the hang is {'' if is_proved else 'not '}proved"


def _raw(shape: Shape, run: Run) -> Iterator[str]:
    """Nothing that a terminal or a scraper takes for something else."""
    shown = run.errors + (run.out if shape.output != "json" else "")
    odd = sorted({character for character in shown if not (character.isprintable() or character == "\n")})
    if shape.output != "prometheus" and odd:
        yield f"raw characters are printed: {odd}"
    if shape.output == "prometheus":
        names = {sample.name for family in text_string_to_metric_families(run.out) for sample in family.samples}
        if forged := {name for name in names if not name.startswith(("kafka_", "process_", "python_"))}:
            yield f"series are forged: {sorted(forged)}"


def _passed(bounds: Bounds, run: Run, idle_mb: float) -> Iterator[str]:
    for what, took, allowed in (
        ("seconds of CPU", run.cpu_s, bounds.cpu_s),
        ("MB", run.mb - idle_mb, bounds.mb),
        ("requests", run.requests, bounds.requests),
        ("kB printed", (len(run.out) + len(run.errors)) / 1000, bounds.printed_kb),
    ):
        if took > allowed:
            yield f"{took:.1f} {what}, of which {allowed} are allowed"
