"""Asks each detector that comes with HangBench on a real broker."""

from __future__ import annotations

import sys

import pytest

from hangbench.detector import Question, Response, Says
from hangbench.detectors import DETECTORS, DetectorUnavailable
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import plant_hang
from hangbench.situations.steps import Client
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
