"""Makes the baseline file that the pipeline would have made of the weeks before, and reads it.

The pipeline counts all owners of a topic together; here one owner of each kind stands for them.
"""

from __future__ import annotations

import json
from itertools import takewhile
from random import Random
from typing import Final

import numpy as np

from benchmarks.baselines import DAYS, RARE_DAYS, Numbers, rule
from exporter.baseline import FORMAT, VERSION, Baseline, parse
from exporter.pipeline.thresholds import RARE_SAMPLES
from tests.evaluation.builders import NOW_MS
from tests.verification.noise.plans import DAY_MS, Planner
from tests.verification.noise.workload import FAMILIES, OWNERS
from tests.verification.noise.world import CYCLE_MS

CLUSTER_ID: Final = "cluster-1"
"""The id in every snapshot of `tests/evaluation/builders.py`."""
STREAMS_SAMPLES: Final = 10_000


def baseline(owners: int = OWNERS) -> Baseline:
    """The baselines of every topic, and of every id that is used again; an id that is used once has none."""
    planners = {planner for family in FAMILIES for planner in family.planners}
    usual = {planner: _usual(planner) for planner in planners}
    usual_of_streams = _entry(np.zeros(STREAMS_SAMPLES), DAYS)
    ids, topics = [], []
    for job in (job for family in FAMILIES for job in family.jobs(owners)):
        planner = job.planner
        found = usual_of_streams if planner is None else usual[planner]
        topics.append({"topic": job.topic, **found})
        names = job.names if planner is None else [each for name in job.names for each in planner.ids(name)]
        ids += [{"transactional_id": name, **found} for name in names]
    thresholds = {"transactional_ids": ids, "groups": [], "topics": topics}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "cluster_ids": [CLUSTER_ID],
        "made_at_ms": NOW_MS,
        "thresholds": {
            kind: [{"cluster_id": CLUSTER_ID, **entry} for entry in entries] for kind, entries in thresholds.items()
        },
    }
    return parse(json.dumps(document))


def _usual(planner: Planner) -> dict[str, int | None]:
    """Returns what the file has about one owner's transactions, of eight weeks if there are few."""
    few = _observed(planner, DAYS)
    return _entry(few, DAYS) if len(few) >= RARE_SAMPLES else _entry(_observed(planner, RARE_DAYS), RARE_DAYS)


def _observed(planner: Planner, days: int) -> Numbers:
    """Returns durations in seconds as cycles see them: the age in the last cycle, 0 if that is the only one."""
    end_ms, seconds = NOW_MS + days * DAY_MS, []
    for each in takewhile(lambda each: each.began_ms < end_ms, planner.plan(Random(0), "", 0, NOW_MS)):
        first, last = -(-each.began_ms // CYCLE_MS), (each.ended_ms - 1) // CYCLE_MS
        if first <= last:
            seconds.append((last * CYCLE_MS - each.began_ms) / 1000 if first < last else 0)
    return np.array(seconds)


def _entry(durations_s: Numbers, days: int) -> dict[str, int | None]:
    threshold_s = rule(durations_s, days)
    return {
        "samples": len(durations_s),
        "p99_ms": int(np.quantile(durations_s, 0.99) * 1000),
        "threshold_ms": None if threshold_s is None else int(threshold_s * 1000),
    }
