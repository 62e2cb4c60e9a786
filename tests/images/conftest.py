"""The images, and a broker with a hang, for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from tests.images.engine import image
from tests.marks import starts
from tests.tools import ToolUnavailable

TOPIC = "orders"


def built(target: str) -> str:
    try:
        return image(target)
    except ToolUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
@starts("engine")
def exporter_image() -> str:
    return built("exporter")


@pytest.fixture(scope="session")
@starts("engine")
def pipeline_image() -> str:
    return built("pipeline")


@pytest.fixture(scope="package")
@starts("broker")
def hanging() -> Iterator[KafkaCluster]:
    """A broker on the host with a hang on a partition of TOPIC."""
    with KafkaCluster("4.3.1", properties=HANGS_CAN_BE_PLANTED) as cluster:
        cluster.topics.create(TOPIC)
        plant_hang(cluster.bootstrap, TOPIC, 0, "abandoned-app")
        yield cluster
