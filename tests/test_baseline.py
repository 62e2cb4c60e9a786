"""Baselines: read, looked up, and never used if the file has an error."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.baseline import NO_BASELINE, Baseline, BaselineError, UsualDuration, parse
from exporter.daemon.baseline_file import BaselineFile
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy, Verdict
from exporter.transaction_log.journal import NO_JOURNAL
from tests.baselines import DAY_MS, RULES, document
from tests.evaluation.builders import NOW_MS, Entry, snapshot, transaction


def baseline(**changes: Any) -> Baseline:
    return parse(json.dumps(document(**changes)), RULES)


@pytest.mark.parametrize(
    ("transactional_id", "topic", "of"),
    [
        ("app-1", "orders", "transactional id 'app-1'"),
        ("billing-7", "orders", "group billing"),
        ("billing-new", "orders", "group billing"),
        ("stranger", "orders", "topic orders"),
        (None, "orders", "topic orders"),
        (None, "bills", None),
        ("stranger", "elsewhere", None),
    ],
)
def test_the_narrowest_that_has_a_threshold_counts(transactional_id: str | None, topic: str, of: str | None) -> None:
    """The id's own, else its group's, else the topic's; another cluster's are none."""
    usual = baseline().usual("cluster-1", transactional_id, topic)

    assert (None if usual is None else usual.of) == of
    assert baseline().usual("cluster-2", transactional_id, topic) is None


def test_numbers_are_taken_as_whole_ones() -> None:
    """The pipeline may write fractions."""
    assert baseline().usual("cluster-1", "app-1", "orders") == UsualDuration(
        of="transactional id 'app-1'", threshold_ms=500, p99_ms=120, samples=300
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is not JSON"),
        ("[]", "it is not a baseline file"),
        ("{}", "it is not a baseline file"),
        (json.dumps(document(version=2)), "its version is 2, and this exporter reads version 1"),
        (json.dumps(document(made_at_ms="yesterday")), "it is damaged: ValueError: made_at_ms is 'yesterday'"),
        (json.dumps(document(made_at_ms=-1)), "it is damaged"),
        (json.dumps(document(thresholds={})), "it is damaged: KeyError"),
        (json.dumps(document(cluster_ids=[1])), "it is damaged: TypeError: 1 is not a string"),
        (json.dumps(document(thresholds=None)), "it is damaged"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, sentence: str) -> None:
    """With a sentence that says what it is instead."""
    with pytest.raises(BaselineError) as caught:
        parse(text)

    assert str(caught.value).startswith(sentence)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*document(), "samples", "threshold_ms", "topic"]), JSON)
def test_anything_else_in_any_place_is_a_baseline_or_refused(place: str, value: Any) -> None:
    """Never another exception: the daemon reads this file in its cycle."""
    damaged = document()
    if place in damaged:
        damaged[place] = value
    else:
        damaged["thresholds"]["topics"][0][place] = value
    try:
        read: object = parse(json.dumps(damaged))
    except BaselineError as error:
        read = error
    assert isinstance(read, Baseline | BaselineError)


def test_longer_than_usual_is_a_warning_and_no_verdict() -> None:
    """A second old where half a second is usual; without a baseline the same transaction is nothing special."""
    taken = snapshot([Entry()], transactions=(transaction(start_ms=NOW_MS - 1000),))
    evaluation = evaluate(taken, Memory(), Policy(), NO_JOURNAL, baseline())
    plain = evaluate(taken, Memory(), Policy())

    (row,) = all_rows(evaluation)
    assert row.verdict is Verdict.OPEN_WITHIN_TIMEOUT
    assert row.unusual is not None
    assert evaluation.partitions.unusually_long_transactions.tolist() == [1, 0, 0]
    assert evaluation.suspects == ()
    assert all_rows(plain)[0].unusual is None
    assert (evaluation.has_baseline, plain.has_baseline) == (True, False)


@pytest.mark.parametrize(("age_ms", "unusual"), [(500, False), (501, True)])
def test_unusual_is_strictly_longer(age_ms: int, *, unusual: bool) -> None:
    """At the threshold it is still usual."""
    taken = snapshot([Entry()], transactions=(transaction(start_ms=NOW_MS - age_ms),))

    (row,) = all_rows(evaluate(taken, Memory(), Policy(), NO_JOURNAL, baseline()))
    assert (row.unusual is not None) == unusual


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "baselines.json"


@pytest.fixture
def file(path: Path) -> BaselineFile:
    """Used for seven days, at NOW_MS."""
    return BaselineFile(path, RULES, age_ms_max=7 * DAY_MS, wall_clock=lambda: NOW_MS / 1000)


def write(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(document(**changes)))


def test_the_file_is_read_again_when_it_changes(file: BaselineFile, path: Path) -> None:
    """A newer one replaces it, as the pipeline does: written under another name, then renamed."""
    write(path)
    first = file.current("cluster-1")
    assert file.current("cluster-1") is first
    write(path.with_name("new"), made_at_ms=NOW_MS - 5)
    path.with_name("new").replace(path)

    assert file.current("cluster-1").made_at_ms == NOW_MS - 5
    assert (file.status.made_at_ms, file.status.failure) == (NOW_MS - 5, None)


@pytest.mark.parametrize(
    ("sentence", "prepare", "made_at_ms"),
    [
        ("it cannot be read: No such file or directory", lambda _path: None, None),
        ("it cannot be read: Is a directory", lambda path: path.mkdir(), None),
        ("it is not JSON", lambda path: path.write_text("{"), None),
        ("it is not UTF-8 text", lambda path: path.write_bytes(b"\xff"), None),
        ("it was made 8.0 d ago", lambda path: write(path, made_at_ms=NOW_MS - 8 * DAY_MS), NOW_MS - 8 * DAY_MS),
        (
            "it has no baselines yet: its history has no transaction that has ended",
            lambda path: write(path, cluster_ids=[]),
            NOW_MS - DAY_MS,
        ),
        (
            "it is for other clusters, not for cluster-1",
            lambda path: write(path, cluster_ids=["cluster-2"]),
            NOW_MS - DAY_MS,
        ),
    ],
)
def test_a_file_that_is_of_no_use_is_reported_once(
    file: BaselineFile,
    path: Path,
    caplog: pytest.LogCaptureFixture,
    sentence: str,
    prepare: Callable[[Path], None],
    made_at_ms: int | None,
) -> None:
    """Missing, foreign, damaged, stale: nothing is unusual then, and nothing else changes."""
    prepare(path)
    for _ in range(3):
        assert file.current("cluster-1") is NO_BASELINE

    assert file.status.failure is not None
    assert file.status.failure.startswith(sentence)
    assert file.status.made_at_ms == made_at_ms
    assert len([record for record in caplog.records if "is not used" in record.message]) == 1


def test_a_file_that_is_far_too_large_is_not_read(file: BaselineFile, path: Path) -> None:
    """Memory is worth more: a sparse file of 200 MB."""
    path.touch()
    os.truncate(path, 200_000_000)

    assert file.current("cluster-1") is NO_BASELINE
    assert "larger than 95 MB" in (file.status.failure or "")


def test_a_file_that_goes_and_comes_back_is_used_again(file: BaselineFile, path: Path) -> None:
    """Also when it is the very same one."""
    write(path)
    away = path.with_name("away")
    assert file.current("cluster-1") is not NO_BASELINE
    path.rename(away)
    assert file.current("cluster-1") is NO_BASELINE
    away.rename(path)

    assert file.current("cluster-1") is not NO_BASELINE
