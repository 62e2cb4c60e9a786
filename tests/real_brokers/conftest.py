"""A broker with every login mechanism, and a runner of commands, for all tests of this room."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from tests.brokers.secure import Certificates, SecureCluster
from tests.brokers.token_endpoint import TokenEndpoint
from tests.marks import starts
from tests.real_brokers.exporting import called

TOPIC = "guarded"
Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.made_in(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="package")
@starts("broker")
def cluster(certificates: Certificates) -> Iterator[SecureCluster]:
    """A hang on its topic is what everybody must see."""
    made = SecureCluster("4.3.1", certificates, properties=HANGS_CAN_BE_PLANTED)
    with made:
        made.add_scram_users()
        made.topics.create(TOPIC)
        plant_hang(made.bootstrap, TOPIC, 0, "hang")
        yield made


@pytest.fixture(scope="package")
def tokens() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """Runs one command; state and audit log go to the test's own folder."""

    def run(cluster: KafkaCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
        return called(tmp_path, "--bootstrap-server", cluster.bootstrap, *arguments)

    return run
