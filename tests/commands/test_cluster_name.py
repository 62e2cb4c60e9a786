"""The setting `cluster.name` on the command line: processes of their own against the fake cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kafka.fake_broker import FakeCluster
from tests.kafka.loopback import HOST
from tests.kafka.scene import scene
from tests.real_brokers.exporting import called


@pytest.mark.parametrize("words", [("once",), ("find-hanging", "--topic", "hung")], ids=lambda words: words[0])
@pytest.mark.parametrize(("given", "printed"), [("payments", "payments"), ("", None)])
def test_json_has_the_name_next_to_the_id(
    words: tuple[str, ...], given: str, printed: str | None, tmp_path: Path
) -> None:
    """Null without one: an empty value is none."""
    with FakeCluster(scene(), nodes=2) as fake:
        server = f"{HOST}:{fake.ports[1]}"
        run = called(tmp_path, *words, "--bootstrap-server", server, "--cluster.name", given, "--format", "json")

    assert json.loads(run.stdout)["cluster_name"] == printed
