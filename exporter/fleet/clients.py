"""Keeps the clients of a Spark executor, so that each cluster costs one login, and not one per cycle.

Spark reuses its Python processes, and each of them runs one task at a time.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import ScanSettings
from exporter.files import signature
from exporter.kafka.collect.collector import Collector, open_collector

IDLE_SECONDS_MAX = 600.0


class Clients:
    """The clients of one process, by the settings that they were made from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clients: dict[bytes, tuple[Collector, float]] = {}

    def of(
        self, kafka: KafkaSettings, scan: ScanSettings, *, recalled: tuple[str, tuple[str, ...]] = ("", ())
    ) -> Collector:
        """The client of that cluster, with these limits; a new one gets `recalled`. Raises CredentialsError."""
        self._close_idle()
        key = _key(kafka, scan)
        known = self._clients.get(key)
        if known is None:
            client = open_collector(kafka, scan)
            client.recall(*recalled)
        else:
            client = known[0]
        self._clients[key] = client, self._clock()
        return client

    def close(self) -> None:
        for client, _ in self._clients.values():
            client.close()
        self._clients.clear()

    def _close_idle(self) -> None:
        oldest = self._clock() - IDLE_SECONDS_MAX
        for key in [key for key, (_, used) in self._clients.items() if used < oldest]:
            self._clients.pop(key)[0].close()


def _key(kafka: KafkaSettings, scan: ScanSettings) -> bytes:
    """Hash of the settings, and of the present state of the certificate files that they name."""
    named = {} if kafka.tls is None else asdict(kafka.tls)
    paths = [path for name, path in named.items() if name.endswith("_location") and path is not None]
    files = [signature(Path(path)) for path in paths]
    return hashlib.sha256(pickle.dumps((kafka, scan, files))).digest()


CLIENTS = Clients()
