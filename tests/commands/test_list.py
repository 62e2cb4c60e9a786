"""`list` says what it could not see: a short list without an error is not a list of everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.kafka.errors import ErrorCode
from exporter.snapshot import STATE_TOPIC
from tests.kafka.fake_broker import FakeCluster
from tests.kafka.fake_model import Acl, Model
from tests.kafka.scene import scene
from tests.real_brokers.exporting import called


def _ids_hidden(model: Model) -> None:
    model.may_describe_ids = False


def _one_id_hidden(model: Model) -> None:
    model.acls, model.hidden_ids = [Acl(8, 2, "secret")], {"secret"}


def _acls_not_listed(model: Model) -> None:
    model.acls = ErrorCode.UNKNOWN_SERVER_ERROR


def _loading(model: Model) -> None:
    model.unloaded = {0, 3}


def _state_topic_absent(model: Model) -> None:
    del model.topics[STATE_TOPIC]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            _ids_hidden,
            (
                f"partitions of {STATE_TOPIC} that are not authorized (needs DESCRIBE on all transactional ids), whose "
                "other transactional ids are not listed: 8 of 8"
            ),
        ),
        (_one_id_hidden, "transactional ids: some are visible, and not all that the ACLs name"),
        (_acls_not_listed, "transactional ids: visible, but the authorizer does not list ACLs"),
        (
            _loading,
            f"partitions of {STATE_TOPIC} that are still loading, whose transactional ids are not listed: 2 of 8",
        ),
        (_state_topic_absent, f"{STATE_TOPIC} does not exist or is not visible, so every broker was queried"),
    ],
)
def test_what_is_not_listed_is_named(tmp_path: Path, change: Callable[[Model], None], sentence: str) -> None:
    """Status 4, and a line on standard error."""
    with FakeCluster(scene(), nodes=2) as cluster:
        change(cluster.model)
        done = called(tmp_path, "list", "--bootstrap-server", f"127.0.0.1:{cluster.ports[1]}")

    assert f"incomplete: {sentence}" in done.stderr
    assert done.returncode == 4


def test_everything_is_listed_without_a_word(tmp_path: Path) -> None:
    with FakeCluster(scene(), nodes=2) as cluster:
        done = called(tmp_path, "list", "--bootstrap-server", f"127.0.0.1:{cluster.ports[1]}")

    assert (done.returncode, done.stderr) == (0, "")
    assert "ended" in done.stdout


def test_an_id_that_every_broker_lists_is_at_its_coordinator_alone(tmp_path: Path) -> None:
    """Platforms without the topic have every broker list all ids; only the coordinator describes one."""
    with FakeCluster(scene(), nodes=2) as cluster:
        _state_topic_absent(cluster.model)
        cluster.model.coordinator_without_topic = 2
        cluster.model.does_any_node_list = True
        done = called(tmp_path, "list", "--bootstrap-server", f"127.0.0.1:{cluster.ports[1]}", "--format", "json")

    rows = json.loads(done.stdout)
    assert {row["coordinator"] for row in rows} == {2}
    assert len(rows) == len({row["transactional_id"] for row in rows}) == len(cluster.model.transactions)
