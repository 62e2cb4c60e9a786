"""Says at the start what is allowed and probably not wanted: secrets in clear, globs for expressions, few descriptors."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from exporter.config.settings import ClusterSettings, Settings
from exporter.evaluation.humanize import humanize_count
from exporter.patterns import meant_by_glob

DESCRIPTORS_OF_CLUSTER: Final = 64
"""Brokers of a cluster, twice for the reader of the transaction log, its pipes and lookups; large clusters need more."""
DESCRIPTORS_OF_PROCESS: Final = 128
"""64 connections of the web server, the files of state and history, standard streams, libraries."""


def cautions(settings: Settings) -> Iterator[str]:
    """A sentence for each setting that is allowed and probably not wanted."""
    yield from exposed_secrets(settings)
    yield from globs(settings)


def exposed_secrets(settings: Settings) -> Iterator[str]:
    """A sentence for each secret that anybody on the network can read."""
    for cluster in settings.watched:
        kafka, place = cluster.settings.kafka, _place(cluster)
        if kafka.sasl is None:
            continue
        if kafka.sasl.mechanism == "PLAIN" and kafka.security_protocol == "SASL_PLAINTEXT":
            yield f"{place}kafka.sasl.mechanism PLAIN without TLS sends the password in clear: use SASL_SSL, or SCRAM"
        oauth = kafka.sasl.oauth
        if oauth is not None and urlsplit(oauth.token_endpoint_url).scheme == "http":
            yield (
                f"{place}kafka.sasl.oauthbearer.token.endpoint.url is http: the client secret and the token are sent in "
                "clear: use https"
            )


def globs(settings: Settings) -> Iterator[str]:
    """A sentence for each expression for topics or ids that looks like a shell's pattern."""
    for cluster in settings.watched:
        of_ids = [(f"transaction_log.groups: {name}", match) for name, match in cluster.settings.transaction_log.groups]
        for name, pattern in [*cluster.settings.scan.topic_patterns, *of_ids]:
            meant = meant_by_glob(pattern.pattern)
            if meant is not None:
                given = f"{_place(cluster)}{name} {pattern.pattern!r}"
                yield f"{given} is a regular expression: for all such names write {meant!r}"


def _place(cluster: ClusterSettings) -> str:
    return "" if cluster.name is None else f"cluster {cluster.name}: "


def lacking_descriptors(settings: Settings, limit: int | None = None) -> str | None:
    """A sentence if the limit of open files is too low for these settings."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    needed = DESCRIPTORS_OF_PROCESS + DESCRIPTORS_OF_CLUSTER * len(settings.watched)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    clusters = humanize_count(len(settings.watched), "cluster")
    return f"the limit of open files is {soft}, and {clusters} may need {needed}: raise the limit (ulimit -n {needed})"
