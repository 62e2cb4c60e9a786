"""Topics that the settings exclude are not read, are counted apart, and make nothing incomplete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from exporter.config.loading import load
from exporter.evaluation.gaps import gaps
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.scope import Scope
from exporter.snapshot import STATE_TOPIC, PartitionResult, Snapshot
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import answers, evaluated, scene, verdicts


@contextmanager
def collector(cluster: FakeCluster, *, include: str = "", exclude: str = "") -> Iterator[Collector]:
    """With the settings as a user writes them."""
    settings = load(
        file=None,
        environment={},
        flags={
            "kafka.bootstrap.servers": f"{HOST}:{cluster.ports[1]}",
            **({"scan.topics.include": include} if include else {}),
            **({"scan.topics.exclude": exclude} if exclude else {}),
        },
    ).settings
    with closing(Collector.opened(settings.kafka, settings.scan)) as made:
        yield made


def read_topics(snapshot: Snapshot) -> set[str]:
    return {topic for (topic, _), answer in answers(snapshot).items() if answer is PartitionResult.READ}


def requested(cluster: FakeCluster) -> set[str]:
    """Topics in requests for producers."""
    return {topic.name for sent in cluster.received if sent.api == "DescribeProducers" for topic in sent.request.topics}


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ("", "hung", {"mixed", "lively", STATE_TOPIC}),
        ("", "hun", {"hung", "mixed", "lively", STATE_TOPIC}),
        ("", '["h.*", "__.*"]', {"mixed", "lively"}),
        ("[a-m]ixed", "", {"mixed"}),
        ("(mixed|lively)", "", {"mixed", "lively"}),
        ('["mixed", "hung"]', "hung", {"mixed"}),
    ],
)
def test_patterns_match_whole_names_and_exclude_wins(include: str, exclude: str, expected: Sequence[str]) -> None:
    """One expression or a list; a part of a name is not enough; nothing of an excluded topic is requested."""
    with FakeCluster(scene(), nodes=2) as cluster, collector(cluster, include=include, exclude=exclude) as made:
        snapshot = made.collect()

        assert read_topics(snapshot) == set(expected)
        assert requested(cluster) == set(expected)
        assert snapshot.partitions.excluded_count == sum(
            each is PartitionResult.EXCLUDED for each in answers(snapshot).values()
        )
        assert len(answers(snapshot)) == 15


def test_excluded_partitions_make_nothing_incomplete_and_have_no_verdict() -> None:
    """Neither a missing READ nor a missing leader of an excluded topic is a gap; verdicts on others are as before."""
    with FakeCluster(scene(), nodes=2) as cluster, collector(cluster, exclude="hung") as made:
        cluster.model.unreadable_topics = {"hung"}
        cluster.model.topics["hung"][1].leader = -1
        made.collect()
        snapshot = made.collect(seen_before=None)

    found = verdicts(evaluated(snapshot))
    assert snapshot.is_complete, gaps(snapshot)
    assert {topic for topic, _, _ in found} == {"mixed", "lively"}
    assert found["mixed", 1, 14].is_hanging
    assert snapshot.partitions.reasons == ()


def test_a_topic_that_an_operator_names_is_read() -> None:
    """`find-hanging --topic hung` works while the daemon excludes it."""
    with FakeCluster(scene(), nodes=2) as cluster, collector(cluster, exclude="hung") as made:
        snapshot = made.collect(scope=Scope(topic="hung"))

    assert set(answers(snapshot).values()) == {PartitionResult.READ}
    assert {topic for topic, _ in answers(snapshot)} == {"hung"}


def test_an_excluded_topic_may_vanish() -> None:
    """Whether it is deleted or its DESCRIBE is missing does not matter; of any other topic it does."""
    with FakeCluster(scene(), nodes=2) as cluster, collector(cluster, exclude="hung") as made:
        made.collect()
        cluster.model.hidden_topics = {(node, topic) for node in (1, 2) for topic in ("hung", "lively")}
        snapshot = made.collect()

    assert snapshot.visibility.hidden_topics == ("lively",)


def test_a_filter_that_leaves_nothing_is_a_gap() -> None:
    """A misspelt expression must not look like a healthy cluster."""
    with FakeCluster(scene(), nodes=2) as cluster, collector(cluster, include="order") as made:
        snapshot = made.collect()

    assert not snapshot.is_complete
    assert gaps(snapshot) == ("scan.topics excludes every visible topic",)
