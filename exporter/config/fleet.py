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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from exporter.config.loading import (
    ConfigurationError,
    SettingsWithSources,
    WrongUsageError,
    bootstrap_servers_of,
    composed,
    flag_name,
    load,
    settings_below,
)
from exporter.config.settings import ClusterSettings
from exporter.config.sources import SettingSource
from exporter.config.suggestions import CLUSTERS

BROKERS: Final = "kafka.bootstrap.servers"
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
    chosen: str | None = None,
) -> SettingsWithSources:
    """Settings with their clusters, in the order of the file `clusters`, a path and its text.

    With `chosen` only those of this cluster: what the others refer to is not read. Raises ConfigurationError with every
    problem found.
    """
    problems: list[str] = []
    files: list[Path] = []
    blocks = _blocks(*clusters, problems)
    if blocks and chosen is not None and chosen not in blocks:
        raise _no_such_cluster(chosen, blocks)
    own = {name: block for name, block in blocks.items() if chosen in (None, name)}
    if ignored := list(_flags_without_effect(clusters[0], own, flags)):
        raise WrongUsageError(ignored)
    loaded: dict[str, SettingsWithSources] = {}
    for name, block in own.items():
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
    brokers = Counter(
        loaded[name].settings.kafka.bootstrap_servers
        if name in loaded
        else bootstrap_servers_of(file=file, java=java, environment=environment, cluster=block)
        for name, block in blocks.items()
    )
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
    names = [str(cluster.name) for cluster in settings.clusters]
    if not found:
        raise _no_such_cluster(str(name), names)
    if not one and name is None:
        return loaded
    if len(found) > 1:
        known = ", ".join(names)
        raise WrongUsageError([f"this command reads one cluster: choose it by --cluster NAME, one of {known}"])
    (cluster,) = found
    own = (
        replace(cluster.settings, cluster_name=cluster.name) if one else replace(cluster.settings, clusters=(cluster,))
    )
    return replace(loaded, settings=own, written=cluster.written)


def _no_such_cluster(name: str, names: Iterable[str]) -> WrongUsageError:
    return WrongUsageError([f"--cluster {name}: there is no such cluster; the file has {', '.join(names)}"])


def _flags_without_effect(
    path: str, blocks: Mapping[str, Mapping[str, SettingSource]], flags: Mapping[str, str]
) -> Iterator[str]:
    """Says which flags a block overrides. A command that writes must not go to other brokers than its options name."""
    for setting in flags:
        if setting == BROKERS and blocks:
            yield (
                f"--bootstrap-server ({BROKERS}): each cluster has its brokers in {path}: leave the option out, and choose "
                "a cluster by --cluster NAME"
            )
            continue
        for name, block in blocks.items():
            if setting in block:
                place = block[setting].place
                yield f"{flag_name(setting)}: cluster {name} has a {setting} of its own ({place}): leave the option out"


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
        # Its pages would be at `..`, or below those of another cluster; and each line with its name would be two.
        elif not name.strip(".") or "/" in name or not name.isprintable():
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
