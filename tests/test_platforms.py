"""On a platform that offers less nothing false is said, and the level of proof is what is proved."""

from __future__ import annotations

import json
import socket
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from exporter.commands.standstill import about_topic, names_of
from exporter.commands.standstill_in_words import in_words
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation, Verdict
from exporter.publication.page.summary import Severity, summarize
from exporter.snapshot import STATE_TOPIC, ProofLevel, Provable
from exporter.status import ProofStatus
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import ALIVE, HANGING, scene
from tests.platforms import PLATFORMS, Platform, Played, Scattered, played, scattered
from tests.publication.builders import status
from tests.real_brokers.exporting import called

SEEDS = 40
LIVE = {row[:2] for row, verdict in ALIVE.items() if not verdict.is_suspect}
PROVED = {ProofLevel.FULL: 3, ProofLevel.BY_OFFSETS: 2, ProofLevel.WATCH_ONLY: 0}
"""Hangs of the scene that are proved at least: a hang of an unknown id needs ACLs, and offsets show one on a partition."""


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_a_platform_has_a_level_and_nothing_false_is_said(platform: Platform) -> None:
    """What is proved hangs, what `doctor` calls provable is proved, and nothing else is healthy without coverage."""
    found = played(platform)

    assert found.false_hangs() == []
    assert found.hangs_proved() >= PROVED[found.diagnosis.level]
    if found.diagnosis.level is ProofLevel.WATCH_ONLY:
        assert found.hangs_proved() == 0
        assert Verdict.INCONCLUSIVE in {row.verdict for row in found.evaluation.suspects}
    if found.evaluation.snapshot.transactions:  # Kafka 2.8 does not list any
        assert found.live() == LIVE
    healthy = {row.key[:3] for row in found.evaluation.longest_others if row.verdict is Verdict.OPEN_WITHIN_TIMEOUT}
    assert healthy.isdisjoint(HANGING)


@pytest.mark.parametrize("platform", PLATFORMS[3:6], ids=lambda platform: platform.name)
def test_coverage_has_the_level_that_doctor_says(platform: Platform, tmp_path: Path) -> None:
    """Without READ, without the requests to coordinators, and on a fork of Kafka."""
    with FakeCluster(scene(), nodes=2) as cluster:
        platform.shape(cluster)

        def found(command: str, *more: str) -> Any:
            words = (command, "--bootstrap-server", f"{HOST}:{cluster.ports[1]}", *more)
            return json.loads(called(tmp_path, *words, "--format", "json").stdout)

        said = found("doctor")["level"]
        assert found("find-hanging", "--stuck-after", "0")["coverage"]["proof_level"] == said
        assert found("once")["coverage"]["proof_level"] == said


def test_the_level_in_json_waits_for_no_broker_that_has_left(tmp_path: Path) -> None:
    """A frozen broker is still among the addresses of the settings: `doctor` reports it after a time-out."""
    with FakeCluster(scene(), nodes=2) as cluster, socket.create_server((HOST, 0)) as frozen:
        frozen.setblocking(False)
        addresses = f"{HOST}:{cluster.ports[1]},{HOST}:{frozen.getsockname()[1]}"
        words = ("find-hanging", "--bootstrap-server", addresses, "--stuck-after", "0", "--format", "json")
        done = called(tmp_path, *words, "--kafka.request.timeout.ms", "1000")

        assert json.loads(done.stdout)["coverage"]["proof_level"] == "full"
        with pytest.raises(BlockingIOError):
            frozen.accept()


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_nothing_false_is_said_of_scattered_transactions(platform: Platform) -> None:
    """In forty clusters: no live one is called a hang, and none that hangs is called live where its producer is shown."""
    for seed in range(SEEDS):
        there = scattered(seed)
        found = played(platform, model=lambda there=there: there.model)  # type: ignore[misc]
        for row in all_rows(found.evaluation):
            key = (row.topic, row.partition, row.producer_id)
            if row.verdict.is_hanging:
                assert key in there.hanging if row.has_producer else key[:2] in there.hanging_by_offsets, (seed, row)
            elif row.has_producer and not row.verdict.is_suspect:
                assert key in there.live, (seed, row)
        if found.diagnosis.level is ProofLevel.FULL and found.diagnosis.provable is Provable.ALL:
            assert found.hangs_proved() == len(there.hanging), seed
        assert _false_on_page(there, found) == "", seed
        assert _false_of_why(there, found.evaluation) == [], seed
        assert (found.diagnosis.level is ProofLevel.WATCH_ONLY) <= (found.hangs_proved() == 0), seed


def _false_on_page(there: Scattered, found: Played) -> str:
    """The headline, where it is green beside a hang, or red without one.

    Offsets show only what holds a partition, and a live transaction on it may be its owner until it completes.
    """
    shown: AbstractSet[Any] = there.hanging
    if found.diagnosis.level is ProofLevel.BY_OFFSETS:
        shown = there.hanging_by_offsets - {key[:2] for key in there.live}
    proof = ProofStatus(
        provable=found.diagnosis.provable,
        level=found.diagnosis.level,
        sentence=found.diagnosis.sentence,
        checked_at_ms=found.evaluation.snapshot.taken_at_ms,
    )
    summary = summarize(found.evaluation, status(proof=proof))
    is_green, is_red = summary.level is Severity.GOOD, summary.level is Severity.BAD
    return summary.title if (is_green and shown) or (is_red and not there.hanging) else ""


def _false_of_why(there: Scattered, evaluation: Evaluation) -> list[str]:
    """Partitions of which `why` says that nothing holds them although something is open, or the reverse."""
    open_on = {key[:2] for key in there.hanging | there.live}
    false = []
    for topic, partition in names_of(evaluation):
        answer = about_topic(evaluation, topic, partition)
        says_none = not (answer.holds or answer.unknown)
        if topic != STATE_TOPIC and says_none == ((topic, partition) in open_on):
            false.append(f"{topic}-{partition}: {in_words(answer)}")
    return false
