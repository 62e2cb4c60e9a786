"""A job that a CronJob runs for years: files, folders, rows and bytes stay as they are once each bound is reached."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from exporter.pipeline import delta
from tests.pipeline.year import PROPERTIES, Year

DAYS: Final = 12
SETTLED: Final = 4
"""The first day on which every bound was reached."""
CLOSE: Final = 1.05
"""Where in its circle the log of a table is differs from day to day: its checkpoints come with every tenth commit."""


@pytest.mark.slow
def test_what_is_kept_does_not_grow(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most of the last four days is that of the four days before them. Seconds of a quiet run are printed only."""
    monkeypatch.setattr(delta, "PROPERTIES", PROPERTIES)
    kept = []
    for day in Year(spark, tmp_path).days(DAYS):
        print(day, flush=True)
        kept.append(asdict(day))
    before, after = kept[SETTLED:-SETTLED], kept[-SETTLED:]
    grown = {
        name: (most, now)
        for name in ("files", "folders", "rows", "state_bytes", "log_bytes")
        if (now := max(day[name] for day in after)) > CLOSE * (most := max(day[name] for day in before))
    }

    assert grown == {}
