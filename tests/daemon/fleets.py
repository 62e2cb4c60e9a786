"""Settings, readers and snapshots of several clusters in one daemon."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.config.fleet import load_fleet
from exporter.config.settings import ClusterSettings, Settings
from exporter.snapshot import Snapshot
from tests.daemon.stand_ins import Script
from tests.evaluation.builders import Entry, snapshot, transaction

FLAGS = {"scan.interval": "10s", "scan.deadline": "9s"}


def fleet(*names: str, more: str = "", **flags: str) -> Settings:
    """Clusters of these names; `more` is YAML for the first one."""
    named_flags = {name.replace("__", "."): value for name, value in flags.items()}
    blocks = [f"  {name}:\n    kafka: {{bootstrap.servers: '{name}:1'}}\n" for name in names]
    blocks[0] += more
    text = "clusters:\n" + "".join(blocks)
    common = "".join(f"{name}: {value}\n" for name, value in FLAGS.items() if name not in named_flags)
    return load_fleet(("fleet.yaml", text), file=("config.yaml", common), flags=named_flags).settings


class Scripts:
    """A reader for each cluster, which returns what the script of its name has."""

    def __init__(self, **scripts: Script) -> None:
        self.scripts: Mapping[str, Script] = scripts
        self.closed: list[str] = []

    def __call__(self, cluster: ClusterSettings) -> Script:
        name = str(cluster.name)
        script = self.scripts[name]
        script.close = lambda: self.closed.append(name)  # type: ignore[method-assign]
        return script


def healthy(cluster_id: str, partitions: int = 1) -> Snapshot:
    return snapshot([Entry()], transactions=(transaction(),), partitions=partitions, cluster_id=cluster_id)
