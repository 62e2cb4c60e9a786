"""Asks each detector that comes with HangBench on a real broker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hangbench.detector import Question, Response, Says
from hangbench.detectors import DETECTORS, PARTY_DETECTORS, DetectorUnavailable, party_detectors_of
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.groups import commit
from hangbench.kafka.planting import plant_hang
from hangbench.situations.ground import until_closed
from hangbench.situations.steps import Client, run_transaction
from tests.conftest import FreshName, MakeTopic

FINDS_HANGS = {"kafka-transactions", "kadm", "ktx"}


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_says_what_it_is_known_for(
    name: str,
    kafka_4_3_1: KafkaCluster,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a hang and of a live transaction."""
    monkeypatch.setenv("KTX", f"{sys.executable} -m exporter")
    try:
        detector = DETECTORS[name]()
    except DetectorUnavailable as missing:
        pytest.skip(str(missing))
    topic = make_topic(kafka_4_3_1, partitions=2)
    hang = plant_hang(kafka_4_3_1.bootstrap, topic, 0, fresh_name("hang"))
    live = Client.begin(kafka_4_3_1.bootstrap, fresh_name("live")).open(topic, 1)
    question = Question(
        bootstrap=kafka_4_3_1.bootstrap, cluster=kafka_4_3_1, situations=(), request_timeout_ms=10_000, patience_s=30
    )
    with detector.watching(question) as look:
        response: Response = look()

    assert response.death is None
    said = {key: response.says(topic, key.partition, key.producer_id) for key in (hang, live)}
    assert (said[hang] is Says.HANGING) == (name in FINDS_HANGS)
    assert (said[live] is Says.HANGING) == (name == "kafka-python"), "it goes by the age at the coordinator"


@pytest.mark.parametrize("name", PARTY_DETECTORS)
def test_a_detector_of_parties_says_what_it_is_known_for(
    name: str,
    kafka_4_3_1: KafkaCluster,
    make_topic: MakeTopic,
    fresh_name: FreshName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group stands at the first record of an open transaction, another is before it, and the owner may start."""
    monkeypatch.setenv("KTX", f"{sys.executable} -m exporter")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (detector,) = party_detectors_of([name])
    topic, owner = make_topic(kafka_4_3_1), fresh_name("owner")
    run_transaction(kafka_4_3_1.bootstrap, fresh_name("before"), [(topic, 0)], commit=True)
    until_closed(kafka_4_3_1.bootstrap, topic, 0)
    live = Client.begin(kafka_4_3_1.bootstrap, owner).open(topic, 0)
    waits, reads = fresh_name("waits"), fresh_name("reads")
    commit(kafka_4_3_1, waits, topic, live.start_offset)
    commit(kafka_4_3_1, reads, topic, 0)
    question = Question(bootstrap=kafka_4_3_1.bootstrap, cluster=kafka_4_3_1, situations=(), patience_s=30)
    answers = [
        detector.ask(question, group=waits, young_ms=0),
        detector.ask(question, group=reads, young_ms=0),
        detector.ask(question, transactional_id=owner, young_ms=0),
    ]

    assert [(answer.death, answer.held) for answer in answers] == [(None, {(topic, 0): owner}), (None, {}), (None, {})]
