"""A recorded cycle runs again to the same bytes, with its own names and with others; what differs is named."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.capsules.cycle import CapsuleError, Mark
from exporter.capsules.file import Capsule, expected_of, load, pack, unpack
from exporter.capsules.replaying import replay
from exporter.capsules.sharing import anonymous
from exporter.kafka.collect.topic_filter import TopicFilter
from exporter.snapshot import STATE_TOPIC
from tests.capsules.recorded import recorded
from tests.kafka.fake_broker import FakeCluster, Fault
from tests.kafka.scene import scene

REAL = sorted(Path(__file__).parent.rglob("*.zip"))
"""Capsules of situations on real brokers; `python -m tests.verification.situations --capsules FOLDER` makes them.

Those in `first/` have no `ACL_PROBES`, as those that users have kept from before.
"""


@pytest.fixture(scope="module")
def capsule() -> Capsule:
    """Four cycles over every kind of open transaction, from a file."""
    return unpack(pack(recorded(scene(), cycles=4)))


def results(capsule: Capsule) -> Iterator[bytes]:
    return (expected_of(replay(cycle).evaluation) for cycle in capsule.cycles)


def test_every_cycle_gives_what_it_gave_when_it_was_recorded(capsule: Capsule) -> None:
    """Byte for byte, also the second time: a replay changes nothing in its capsule."""
    assert tuple(results(capsule)) == capsule.expected
    assert tuple(results(capsule)) == capsule.expected
    assert [replay(cycle).unmatched for cycle in capsule.cycles] == [()] * 4


def test_faults_are_replayed_in_their_order() -> None:
    """One node is silent, which its other requests of the cycle find; one response is garbage."""

    def prepare(cluster: FakeCluster) -> None:
        cluster.on_request = lambda received: (
            Fault.SILENT if received.node == 2 and received.api == "DescribeProducers" else None
        )

    found = recorded(scene(), cycles=2, prepare=prepare)

    assert any(moment.mark is Mark.FAULT for moment in found.cycles[0].moments)
    assert b"timed_out" in found.expected[0]
    assert tuple(results(unpack(pack(found)))) == found.expected


def test_with_other_names_every_verdict_stays(capsule: Capsule) -> None:
    """Proofs rest on the hash of ids: the replacements hash to the same partitions."""
    other = unpack(pack(anonymous(capsule)))
    rows = [[json.loads(text)["transactions"] for text in each.expected] for each in (capsule, other)]

    assert "all cycles have the same verdicts" in other.summary
    assert tuple(results(other)) == other.expected
    for before, after in zip(*rows, strict=True):
        assert [row["verdict"] for row in before] == [row["verdict"] for row in after]
        assert [row["partition"] for row in before] == [row["partition"] for row in after]


def test_a_request_that_the_capsule_lacks_is_named(capsule: Capsule) -> None:
    """Another version may send other requests."""
    cycle = capsule.cycles[-1]
    less = [each for each in cycle.exchanges if each.api != "DescribeConfigs"]
    numbers = {old: new for new, old in enumerate(i for i, each in enumerate(cycle.exchanges) if each in less)}
    moments = [
        moment._replace(number=numbers.get(moment.number, -1)) if moment.mark in {Mark.RECEIVED, Mark.FAULT} else moment
        for moment in cycle.moments
    ]
    result = replay(replace(cycle, exchanges=less, moments=moments))

    assert {name.split()[0] for name in result.unmatched} == {"DescribeConfigs"}
    assert result.evaluation.max_timeout_is_fallback


def test_the_file_is_text_but_for_the_bytes(capsule: Capsule) -> None:
    """A reader looks at what is in it before it is sent."""
    with zipfile.ZipFile(io.BytesIO(pack(anonymous(capsule)))) as archive:
        names = archive.namelist()
        summary = archive.read("SUMMARY.txt").decode()
        index = json.loads(archive.read("index.json"))

    assert names[:2] == ["index.json", "SUMMARY.txt"]
    assert index["names"] == "replaced"
    assert "Cycle 4" in summary
    assert "hanging_no_transactional_id" in summary


def facts(result: bytes) -> Any:
    """A result of which no sentence is compared; whatever else it has is one word."""

    def without_prose(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_prose(part) for name, part in value.items()}
        if isinstance(value, list):
            return [without_prose(part) for part in value]
        return "a sentence" if isinstance(value, str) and " " in value else value

    return without_prose(json.loads(result))


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_capsules_of_real_brokers_replay_for_ever(path: Path) -> None:
    """Each verdict was right when it was recorded; a change of a result is a decision, no accident. Prose may change."""
    capsule = load(path)

    assert [facts(result) for result in results(capsule)] == [facts(result) for result in capsule.expected]


def test_an_excluded_topic_stays_excluded() -> None:
    """The settings' expressions are kept as the names that they select, with other names too."""
    found = recorded(scene(), cycles=1, topics=TopicFilter((), [re.compile("hu.*")]))

    assert found.cycles[0].excluded == ("hung",)
    assert tuple(results(unpack(pack(found)))) == found.expected
    assert "all cycles have the same verdicts" in anonymous(found).summary


def test_a_cycle_that_ends_early_is_an_error(capsule: Capsule) -> None:
    """A response that never arrives ends the replay, with a sentence."""
    cycle = capsule.cycles[-1]
    with pytest.raises(CapsuleError, match="in the middle of a cycle"):
        replay(replace(cycle, moments=cycle.moments[:10]))


def test_internal_topics_keep_their_names(capsule: Capsule) -> None:
    """Every cluster has them."""
    assert STATE_TOPIC.encode() in pack_of_bytes(anonymous(capsule))


def pack_of_bytes(capsule: Capsule) -> bytes:
    with zipfile.ZipFile(io.BytesIO(pack(capsule))) as archive:
        return archive.read("bytes.bin")
