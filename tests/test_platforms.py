"""On a platform that offers less nothing false is said, and the level of proof is what is proved."""

from __future__ import annotations

import pytest

from exporter.doctor.findings import ProofLevel
from exporter.evaluation.verdicts import Verdict
from tests.kafka.scene import ALIVE, HANGING
from tests.platforms import PLATFORMS, Platform, played

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
