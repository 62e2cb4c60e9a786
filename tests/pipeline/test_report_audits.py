"""The report's section about audits: what was not audited first, then what they found."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from exporter.pipeline import report_audits
from exporter.pipeline.report import SectionRows
from exporter.pipeline.report_audits import (
    AuditsOfWeek,
    ClusterAudits,
    audits_of_week,
    damage_in_words,
    of_coverage,
    section_of_audits,
)
from exporter.pipeline.tables import Tables
from exporter.storage.last_audit import LastAudit

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
NOON_MS = int(NOON.timestamp() * 1000)
SCHEMA = (
    "cluster_id string, audited_at timestamp, topic string, partition int, first_missing long, last_missing long, "
    "failure string, torn long, newer_verdict long, unknown long, open long, as_decided long"
)
STRANGE = "<script>alert(1)</script>"


def newest(cluster_id: str, **changes: Any) -> LastAudit:
    known: dict[str, Any] = {"transactions": {}, "findings": {}, "partitions": 61, "partitions_unread": 0}
    return LastAudit(cluster_id=cluster_id, audited_at_ms=NOON_MS, **{**known, **changes})


def covered(hours_ago: float, partition: int, **named: Any) -> dict[str, Any]:
    at = NOON - timedelta(hours=hours_ago)
    return {"cluster_id": "c", "audited_at": at, "topic": "orders", "partition": partition, **named}


def collected(spark: SparkSession, *rows: dict[str, Any]) -> AuditsOfWeek:
    names = re.findall(r"(\w+) \w+(?:,|$)", SCHEMA)
    frame = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], SCHEMA)
    return of_coverage(frame, [newest("c"), newest("d")], made_at_ms=NOON_MS)


def text_of(audits: AuditsOfWeek | None, *, several: bool = False) -> str:
    page = " ".join(section_of_audits(audits, several=several))
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page)))


def test_the_verdicts_of_a_week_are_added_up_by_cluster(spark: SparkSession) -> None:
    """A verdict of a newer version counts as a finding; what is older than a week does not."""
    audits = collected(
        spark,
        covered(1, 0, as_decided=10, torn=1),
        covered(30, 0, as_decided=5, unknown=2),
        covered(2, 1, newer_verdict=3, open=1),
        covered(8 * 24, 1, torn=100),
    )

    c, d = audits.clusters
    assert c.verdicts == {"as_decided": 15, "torn": 1, "unknown": 2, "newer_verdict": 3, "open": 1}
    assert c.findings == ("1 torn", "3 newer_verdict")
    assert (d.cluster_id, d.verdicts, d.findings) == ("d", {}, ())


def test_what_was_not_audited_is_the_newest_failure_the_unknown_and_the_missing(spark: SparkSession) -> None:
    """A partition that was read later is no failure any more; failures come first."""
    audits = collected(
        spark,
        covered(1, 0, as_decided=10),
        covered(3, 1, failure="timed_out"),
        covered(2, 1, as_decided=1),
        covered(3, 2, first_missing=5, last_missing=9),
        covered(2, 2, first_missing=20, last_missing=30),
        covered(2, 3, unknown=7),
        covered(0, 4, failure="unauthorized"),
    )

    rows = [
        (row.partition, row.failure, row.first_missing, row.last_missing, row.unknown) for row in audits.unaudited.rows
    ]
    assert rows == [(4, "unauthorized", None, None, None), (3, None, None, None, 7), (2, None, 5, 30, None)]


def test_a_failure_that_the_newest_audit_does_not_have_is_over(spark: SparkSession) -> None:
    """It has read the partition, and found no new record: it has no row of it. Each cluster has a newest audit."""
    audits = collected(
        spark,
        covered(3, 1, failure="it has no leader"),
        covered(0, 0, as_decided=1),
        covered(3, 2, cluster_id="d", failure="it has no leader"),
        covered(0, 3, cluster_id="d", failure="timed_out"),
    )

    assert [(row.cluster_id, row.partition) for row in audits.unaudited.rows] == [("d", 3)]


def test_what_is_cut_is_counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_audits, "UNAUDITED_MAX", 2)

    audits = collected(spark, *(covered(0, number, failure="timed_out") for number in range(5)))

    assert (len(audits.unaudited.rows), audits.unaudited.cut) == (2, 3)


def test_no_audit_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing sounds as if exactly-once had held."""
    audits = audits_of_week(spark, Tables(tmp_path), made_at_ms=NOON_MS)

    assert audits is None
    assert text_of(audits) == " Unknown: no audit has run (pipeline audit). "


UNAUDITED = Row("cluster_id", "topic", "partition", "failure", "first_missing", "last_missing", "unknown")


def test_the_section_says_what_was_not_audited_first() -> None:
    audits = AuditsOfWeek(
        [
            ClusterAudits(
                newest("c", partitions=58, partitions_unread=3), {"as_decided": 10_412, "torn": 2, "unknown": 7}
            ),
            ClusterAudits(newest(STRANGE), {}),
        ],
        SectionRows(
            (
                UNAUDITED("c", "orders", 4, f"failed {STRANGE}", None, None, None),
                UNAUDITED("c", "orders", 3, None, None, None, 7),
                UNAUDITED(STRANGE, STRANGE, 2, None, 5, 3_000, 0),
            ),
            cut=9,
        ),
    )

    text = text_of(audits, several=True)

    assert text.index("not audited, because") < text.index("newest audit")
    for words in (
        f"c orders-4 not read: failed {STRANGE} –",  # noqa: RUF001
        "c orders-3 evidence is missing: see audit_transactions 7",
        f"{STRANGE} {STRANGE}-2 records are missing between offsets 5 and 3,000 0",
        "Not shown: 9 more partitions.",
        "c 2026-11-21 12:00 58 3 10,412 7 2 torn",
        f"{STRANGE} 2026-11-21 12:00 61 0 0 0 none",
    ):
        assert words in re.sub(r"\s+", " ", text)
    assert "<script" not in " ".join(section_of_audits(audits, several=True))


def test_the_summary_names_damaged_outcomes_alone() -> None:
    """Every abort leaves a marker without a decision: no damage."""
    some = [
        ClusterAudits(newest("c"), {"torn": 2, "unknown": 7}),
        ClusterAudits(newest("d"), {"torn": 1, "marker_missing": 4}),
    ]
    none = [ClusterAudits(newest("c"), {"marker_without_decision": 2, "as_decided": 7, "unknown": 1})]

    said = damage_in_words(AuditsOfWeek(some, SectionRows()))

    assert said == " Audits of the last week have found damaged outcomes: 3 torn, 4 marker_missing."
    assert damage_in_words(AuditsOfWeek(none, SectionRows())) == damage_in_words(None) == ""


def test_everything_audited_is_said() -> None:
    audits = AuditsOfWeek([ClusterAudits(newest("c"), {"as_decided": 1})], SectionRows())

    assert "Every partition was read, no record is missing, and nothing is unknown." in text_of(audits)
