"""Reads the clusters of a fleet from a file with the settings that differ by cluster; the fleet shares all others.

clusters:
  payments:
    kafka:
      bootstrap.servers: payments-1:9092
  orders:
    kafka:
      bootstrap.servers: orders-1:9092
      security.protocol: SSL
    scan:
      interval: 1m
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from exporter.config.loading import (
    ConfigurationError,
    SettingSource,
    SettingsWithSources,
    WrongUsageError,
    composed,
    load,
    settings_below,
)
from exporter.config.settings import ClusterSettings
from exporter.config.suggestions import CLUSTERS

SECTIONS: Final = ("kafka", "scan", "verdicts", "blocked", "transaction_log")
OF_THE_PROCESS: Final = frozenset({"scan.receive_limit", "transaction_log.groups"})
"""Settings in these sections that the whole fleet shares."""


def load_fleet(
    clusters: tuple[str, str],
    *,
    file: tuple[str, str] | None = None,
    java: Mapping[str, SettingSource] = MappingProxyType({}),
    environment: Mapping[str, str] = MappingProxyType({}),
    flags: Mapping[str, str] = MappingProxyType({}),
) -> SettingsWithSources:
    """Settings with their clusters, in the order of the file `clusters`, a path and its text.

    Raises ConfigurationError with every problem found.
    """
    problems: list[str] = []
    files: list[Path] = []
    blocks = _blocks(*clusters, problems)
    loaded: dict[str, SettingsWithSources] = {}
    for name, block in blocks.items():
        try:
            loaded[name] = load(
                file=file,
                java=java,
                environment=environment,
                flags=flags,
                cluster=block,
                cluster_place=f"{clusters[0]}: cluster {name}: ",
            )
        except ConfigurationError as error:
            problems += [problem for problem in error.problems if problem not in problems]
            files += error.files
    if any(cluster.settings.cluster_name is not None for cluster in loaded.values()):
        problems.append(f"cluster.name: cannot be given for a fleet, whose clusters have the names in {clusters[0]}")
    if problems:
        raise ConfigurationError(problems, files=files)
    first = next(iter(loaded.values()))
    brokers = Counter(cluster.settings.kafka.bootstrap_servers for cluster in loaded.values())
    members = tuple(
        ClusterSettings(
            name=name,
            settings=replace(
                cluster.settings,
                fleet_name=name,
                has_namesakes=brokers[cluster.settings.kafka.bootstrap_servers] > 1,
            ),
            files=cluster.files,
            written=cluster.written,
        )
        for name, cluster in loaded.items()
    )
    return SettingsWithSources(
        settings=replace(first.settings, clusters=members),
        written=first.written,
        files=tuple(dict.fromkeys(file for cluster in loaded.values() for file in cluster.files)),
    )


def choose_cluster(loaded: SettingsWithSources, name: str | None, *, one: bool) -> SettingsWithSources:
    """The fleet, or with a name only this cluster of it. `one`: as the settings of a single cluster.

    Raises WrongUsageError.
    """
    settings = loaded.settings
    found = [cluster for cluster in settings.clusters if name in (None, cluster.name)]
    names = ", ".join(str(cluster.name) for cluster in settings.clusters)
    if not found:
        raise WrongUsageError([f"--cluster {name}: there is no such cluster; the file has {names}"])
    if not one and name is None:
        return loaded
    if len(found) > 1:
        raise WrongUsageError([f"this command reads one cluster: choose it by --cluster NAME, one of {names}"])
    (cluster,) = found
    own = (
        replace(cluster.settings, cluster_name=cluster.name) if one else replace(cluster.settings, clusters=(cluster,))
    )
    return replace(loaded, settings=own, written=cluster.written)


def expecting(loaded: SettingsWithSources, cluster_id: str) -> SettingsWithSources:
    """Returns the settings for a cluster with this id; unchanged without an id, or where there are several clusters."""
    settings = loaded.settings
    if not cluster_id or len(settings.watched) > 1:
        return loaded
    own = tuple(
        replace(cluster, settings=replace(cluster.settings, expected_cluster_id=cluster_id))
        for cluster in settings.clusters
    )
    return replace(loaded, settings=replace(settings, clusters=own, expected_cluster_id=cluster_id))


def _blocks(path: str, text: str, problems: list[str]) -> dict[str, dict[str, SettingSource]]:
    """Settings by cluster, as they are written."""
    try:
        root = composed(path, text)
    except ConfigurationError as error:
        problems += error.problems
        return {}
    clusters = _clusters(root)
    if clusters is None:
        problems.append(f"{path}: must be a mapping with the one key `{CLUSTERS}`, a mapping of names to clusters")
        return {}
    blocks: dict[str, dict[str, SettingSource]] = {}
    for key, node in clusters.value:
        place = f"{path}:{key.start_mark.line + 1}"
        name = str(key.value)
        if name in blocks:
            problems.append(f"{place}: {name!r} is named twice")
        elif not name.strip(".") or "/" in name:  # its pages would be at `..`, or below those of another cluster
            problems.append(f"{place}: {name!r} is not a valid cluster name")
        elif not isinstance(node, yaml.MappingNode):
            problems.append(f"{place}: {name} must be a mapping with a section `kafka`")
        else:
            blocks[name] = _block(path, node, problems)
    return blocks


def _clusters(root: yaml.Node | None) -> yaml.MappingNode | None:
    if not isinstance(root, yaml.MappingNode) or [key.value for key, _ in root.value] != [CLUSTERS]:
        return None
    clusters = root.value[0][1]
    return clusters if isinstance(clusters, yaml.MappingNode) and clusters.value else None


def _block(path: str, node: yaml.MappingNode, problems: list[str]) -> dict[str, SettingSource]:
    found = settings_below(path, node, problems)
    for name, written in found.items():
        if name.partition(".")[0] not in SECTIONS or name in OF_THE_PROCESS:
            problems.append(
                f"{written.place}: {name} applies to the whole fleet: a cluster has only the sections "
                f"{', '.join(SECTIONS)}"
            )
    return found
