"""The sums of an audit: they are of the last day, kept with the state, and in a file for each cluster."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from exporter.audit.decision_rows import VerdictCounts
from exporter.audit.job import last_day
from exporter.audit.tables import AuditState, PartitionPosition, RunCounts, read_state, state_document
from exporter.audit.verdicts import AuditVerdict
from exporter.storage.last_audit import BYTES_MAX, DAY_MS, VERDICTS_MAX, LastAudit, document, file_name, parse

LAST = LastAudit(
    cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    audited_at_ms=1_700_000_000_000,
    transactions={"torn": 1, "as_decided": 10_412},
    findings={"torn": 2},
    partitions=61,
    partitions_unread=1,
)
COUNTS = VerdictCounts(
    transactions=Counter({AuditVerdict.TORN: 1, AuditVerdict.UNKNOWN: 0}),
    on_partitions={("orders", 0): {"torn": 2, "unknown": 1}},
)


def test_runs_older_than_a_day_are_left_out() -> None:
    """A run of exactly a day before is one of them."""
    before = tuple(RunCounts(audited_at_ms=at_ms, transactions={}, findings={"torn": 1}) for at_ms in (5, 6))

    assert last_day(before, COUNTS, DAY_MS + 5) == (
        before[1],
        RunCounts(audited_at_ms=DAY_MS + 5, transactions={"torn": 1}, findings={"torn": 2}),
    )


def test_a_run_without_anything_new_is_not_kept() -> None:
    """An audit that is repeated every minute on an idle cluster has no state that grows."""
    nothing = VerdictCounts(transactions=Counter(), on_partitions={("orders", 0): {"torn": 0, "open": 1}})
    before = (RunCounts(audited_at_ms=6, transactions={}, findings={"torn": 1}),)

    assert last_day(before, nothing, 7) == before


def test_a_state_is_read_as_it_was_written_also_without_recent_runs(tmp_path: Path) -> None:
    """States of older versions have none."""
    position = PartitionPosition(
        topic_id="id", next_offset=7, leader_epoch=1, read_from_ms=3, read_from=4, gaps=((1, 2),), judged_in=2
    )
    recent = (RunCounts(audited_at_ms=9, transactions={"as_decided": 3}, findings={}),)
    state = AuditState(run=2, positions={("orders", 3): position}, settled={2: {7: 8}}, recent=recent)
    written = json.loads(json.dumps(state_document(state)))
    path = tmp_path / "state.json"
    path.write_text(json.dumps(written))
    assert read_state(path) == state

    del written["recent"]
    path.write_text(json.dumps(written))

    assert read_state(path).recent == ()


def test_the_file_is_read_as_it_was_written() -> None:
    assert parse(document(LAST)) == LAST
    assert len(document(LAST)) < BYTES_MAX


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        document(LAST).replace(" audit", " run"),
        document(LAST).replace("10412", '"many"'),
        document(LAST).replace('"torn": 2', '"torn\\n": 2'),
        document(LAST).replace('"torn": 2', ", ".join(f'"{"x" * length}": 1' for length in range(1, VERDICTS_MAX + 2))),
        document(LAST).replace('"partitions": 61', '"partitions": 1e999'),
        document(LAST).replace('{\n  "torn": 2\n }', "[1]"),
        "[" * 100_000,
    ],
)
def test_any_other_text_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it is not the file of an audit$"):
        parse(text)


def test_each_cluster_has_a_file_of_its_own() -> None:
    """Whatever its id has, the name is that of a file."""
    assert file_name("MkU3OEVBNTcwNTJENDM2Qk") == "last_audit-MkU3OEVBNTcwNTJENDM2Qk.json"
    assert file_name("../a b") == "last_audit-..%2Fa%20b.json"
