"""`explain` names what was made on real brokers, and never another cause; the advised setting prevents it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from exporter.explain.causes import Cause
from exporter.explain.prevention import Protected
from exporter.explain.timeline import Clock
from tests.real_brokers.exporting import ended
from tests.real_brokers.watching import Watch
from tests.verification.causes.__main__ import NO_CAUSE, label, named
from tests.verification.causes.scenes import CAUSES, SCENES, delayed, late_write, log_end

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "schema" / "explain.schema.json").read_text())
VERSIONS = ("4.3.1", "3.9.1")
LOOKS = 20


def test_there_is_a_scene_for_each_cause() -> None:
    """A new cause is made on real brokers before it is named."""
    assert set(CAUSES) == {cause.value for cause in Cause} - {Cause.UNKNOWN.value}


def test_the_schema_has_the_names_of_the_code() -> None:
    """Its lists are those that `explain` can print."""
    properties = SCHEMA["properties"]

    assert properties["cause"]["enum"] == [*(cause.value for cause in Cause), None]
    assert properties["possible_causes"]["items"]["enum"] == [cause.value for cause in Cause]
    assert properties["timeline"]["items"]["properties"]["clock"]["enum"] == [clock.value for clock in Clock]
    assert properties["prevention"]["items"]["properties"]["state"]["enum"] == [state.value for state in Protected]


@pytest.mark.broker
def test_a_late_write_is_explained_in_every_format(tmp_path: Path) -> None:
    """The whole answer: cause, evidence, time line with its clocks, measures, and what was read."""
    with late_write("4.3.1") as made:
        found = named(made, tmp_path)
        place = ("--topic", made.topic, "--partition", "0", "--start-offset", str(made.start_offset))
        text, markdown, other = (
            ended(tmp_path, "explain", "--bootstrap-server", made.bootstrap, *place, *more)
            for more in ((), ("--format", "markdown"), ("--start-offset", "0"))
        )

    assert found["cause"] == "late_write"
    closed = {**SCHEMA, "additionalProperties": False}
    assert [error.message for error in Draft202012Validator(closed).iter_errors(found)] == []
    assert "Cause: late_write: a record of the transaction arrived after its end marker" in text.stdout
    assert "exposed  transaction.partition.verification.enable: false" in text.stdout
    assert "nothing was written" in text.stdout
    sentences = [line.split("  ", 3)[-1] for line in text.stdout.splitlines() if "[late-" in line]
    assert any("ABORT marker" in sentence for sentence in sentences)
    assert any("it opened the transaction" in sentence for sentence in sentences)
    assert markdown.stdout.startswith(f"## Why {made.topic}-0, start offset {made.start_offset} hung")
    assert "Cause: late_write" in markdown.stdout
    assert other.returncode == 1
    assert f"open ones start at: {made.start_offset}" in other.stderr


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scene", SCENES)
def test_what_was_made_is_named_or_unknown(scene: str, version: str, tmp_path: Path) -> None:
    """Each of the eight causes by its name; what only looks like one by its own or as unknown, never by another."""
    with SCENES[scene](version) as made:
        found = named(made, tmp_path)

    truth, cause = label(made.cause), str(found["cause"] or NO_CAUSE)
    assert cause == truth if scene in CAUSES else cause in {truth, Cause.UNKNOWN.value}


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
def test_with_verification_the_late_write_is_refused(version: str) -> None:
    """The advised setting prevents the same fault."""
    with delayed(version, {}) as record, Watch(record.cluster.bootstrap) as watch:
        record.arrive()
        ends = set()
        for _ in range(LOOKS):  # without verification it is there at the first look
            ends.add(log_end(record.cluster.bootstrap, record.topic))
            time.sleep(0.1)
        evaluation = watch.cycle(describe_all=True)

    assert ends == {record.log_end}
    assert len(evaluation.snapshot.open_transactions) == 0
