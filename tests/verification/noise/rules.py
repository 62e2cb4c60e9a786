"""Replays samples to the shipped rules in Prometheus' own engine, promtool, and lists what was pending or firing, and when.

Promtool evaluates all rules at every cycle. A long time is replayed in windows, so that each has few series. A window
begins with a warm-up, which is longer than any alert waits and than the ranges of signals about transactions.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from exporter.artifacts.rules import Group
from tests.evaluation.builders import NOW_MS
from tests.verification.noise.day import Samples
from tests.verification.noise.world import CYCLE_MS

STEP_S: Final = CYCLE_MS // 1000
SCRAPED_AFTER_S: Final = 12
"""Time from a cycle to its scrape."""
READ_EVERY: Final = 2
"""Cycles from one reading of the alerts to the next: a minute. An alert that fires is kept for a minute at least."""
WINDOW_CYCLES: Final = 720
WARM_UP_CYCLES: Final = 120
WINDOWS_AT_ONCE: Final = 2
TARGET: Final = 'job="kafka-transaction-exporter",instance="10.0.0.1:9814"'
NAMED: Final = 'ALERTS{severity!="info",severity!="none"}'
COUNTED: Final = 'count by (alertname,alertstate,severity,reason) (ALERTS{severity="info"})'
"""An alert for each blocked group: many, and for nobody's pager."""
FAILED: Final = re.compile(r"expr: \".*\", time: (?P<time>\S+),\s*\n.*exp:.*\n\s*got:(?P<got>.*)")
"""Promtool's words about an expression that has other samples than expected; none are expected of any."""
SAMPLE: Final = re.compile(r'\w*{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)} (?P<value>[0-9.E+-]+)')
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alert that was pending or firing without an interruption, or the number of those of severity info."""

    labels: Labels
    """Its labels, with `alertname` and `alertstate`."""
    first: int
    """The first cycle that it was read in, counted from 0."""
    last: int
    most: float = 1
    """Greatest number of alerts at once; 1 but for severity info."""

    def __getitem__(self, name: str) -> str:
        return dict(self.labels).get(name, "")

    @property
    def is_firing(self) -> bool:
        return self["alertstate"] == "firing"


def replay(samples: Samples, groups: Sequence[Group]) -> Sequence[Alarm]:
    """Returns all that was pending or firing, in the order of time."""
    seen: defaultdict[Labels, dict[int, float]] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WINDOWS_AT_ONCE) as pool:
        rules = Path(folder, "rules.yaml")
        rules.write_text(json.dumps({"groups": _without_annotations(groups)}))
        order = [group["name"] for group in groups]
        for found in pool.map(
            lambda first: _alerts_of_window(samples, order, rules, first), range(0, samples.cycles, WINDOW_CYCLES)
        ):
            for number, labels, value in found:
                seen[labels][number] = value
    alarms = [alarm for labels, values in seen.items() for alarm in _joined(labels, values)]
    return sorted(alarms, key=lambda alarm: (alarm.first, alarm.labels))


def _without_annotations(groups: Sequence[Group]) -> list[Group]:
    """Leaves out the texts, which take longer than all expressions: each has queries of its own."""
    return [
        {**group, "rules": [{name: rule[name] for name in rule if name != "annotations"} for rule in group["rules"]]}
        for group in groups
    ]


def _joined(labels: Labels, values: Mapping[int, float]) -> Iterator[Alarm]:
    """Joins the cycles that follow each other."""
    some: list[int] = []
    for number in sorted(values):
        if some and number > some[-1] + READ_EVERY:
            yield Alarm(labels, some[0], some[-1], max(values[each] for each in some))
            some = []
        some.append(number)
    yield Alarm(labels, some[0], some[-1], max(values[each] for each in some))


def _alerts_of_window(
    samples: Samples, group_order: Sequence[str], rules: Path, first: int
) -> Sequence[tuple[int, Labels, float]]:
    """(cycle, labels, value) of each alert in the window that begins with the cycle `first`."""
    begin, end = max(first - WARM_UP_CYCLES, 0), min(first + WINDOW_CYCLES, samples.cycles)
    test = {
        "interval": f"{STEP_S}s",
        "input_series": list(_input(samples, begin, end)),
        "promql_expr_test": [
            {"expr": expression, "eval_time": f"{(number - begin) * STEP_S}s", "exp_samples": []}
            for number in range(first, end, READ_EVERY)
            for expression in (NAMED, COUNTED)
        ],
    }
    file = {
        "rule_files": [str(rules)],
        "evaluation_interval": f"{STEP_S}s",
        "group_eval_order": group_order,
        "tests": [test],
    }
    path = rules.with_name(f"{first}.yaml")
    path.write_text(json.dumps(file))  # JSON is YAML
    run = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    path.unlink()
    output = run.stdout + run.stderr
    found = list(_found(output, begin))
    assert ", err: " not in output, output[:5000]
    assert found or run.returncode == 0, output[:5000]
    return found


def _found(output: str, begin: int) -> Iterator[tuple[int, Labels, float]]:
    for failed in FAILED.finditer(output):
        number = begin + _seconds(failed["time"]) // STEP_S
        for sample in SAMPLE.finditer(failed["got"]):
            labels = ((name, value) for name, value in LABEL.findall(sample["labels"]) if name != "__name__")
            yield number, tuple(sorted(labels)), float(sample["value"])


def _seconds(text: str) -> int:
    """Reads a duration as promtool writes it."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))


def _input(samples: Samples, begin: int, end: int) -> Iterator[dict[str, str]]:
    """Promtool's series of these cycles. Its time begins at 0, so times in values are moved."""
    origin_s = NOW_MS / 1000 + begin * STEP_S + SCRAPED_AFTER_S
    for series, values in samples.values.items():
        metric, _, own = series.partition("{")
        part = values[begin:end]
        if not all(map(math.isnan, part)):
            moved_s = origin_s if metric.endswith("_timestamp_seconds") else 0
            labels = f"{{{TARGET}{',' + own if own else '}'}"
            yield {"series": f"{metric}{labels}", "values": _notation(part, end - begin, moved_s)}


def _notation(values: array[float], length: int, moved: float) -> str:
    """Returns the values as promtool reads them. Where a series ends it is marked, as Prometheus does."""
    words, was_missing = [], True
    for value in [*values, *[math.nan] * (length - len(values))]:
        is_missing = math.isnan(value)
        words.append(("_" if was_missing else "stale") if is_missing else f"{value - moved:.15g}")
        was_missing = is_missing
    return " ".join(words)
