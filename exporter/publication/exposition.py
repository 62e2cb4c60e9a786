"""Makes the bytes of `/metrics` once per publication, in two formats, each plain and gzip.

Big families are rendered once, compressed once, and shared by both formats.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import Metric as ForeignMetric
from prometheus_client import ProcessCollector

from exporter.publication.metrics.model import Kind, Metric
from exporter.publication.metrics.table import METRICS
from exporter.publication.publication import Publication
from exporter.publication.rendering import family_chunks
from exporter.publication.text import labels_text, number
from exporter.publication.zero_series import Chunk, ZeroSeriesCache
from exporter.status import ProcessStatus

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_BIG_BYTES = 64 * 1024
"""A chunk of a family of at least this size stays one, shared by both formats."""
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Representation:
    """One format and encoding of `/metrics`, ready to send."""

    content_type: str
    content_encoding: str | None
    chunks: tuple[bytes, ...]

    @property
    def body(self) -> bytes:
        """Joins all chunks: a copy."""
        return b"".join(self.chunks)


@dataclass(frozen=True, kw_only=True)
class Exposition:
    """All representations of `/metrics` until the next publication."""

    text: Representation
    text_gzip: Representation
    openmetrics: Representation
    openmetrics_gzip: Representation


@dataclass(frozen=True, slots=True)
class Families:
    """The lines of one cluster, by metric: empty for metrics of the process."""

    publication: Publication
    chunks: tuple[tuple[Chunk, ...], ...]


class ClusterRenderer:
    """Renders one cluster; between two publications it keeps the resting lines of the partitions and nothing else."""

    def __init__(self, cluster: str | None = None, metrics: Sequence[Metric[Any]] = METRICS) -> None:
        """`cluster` is its name in a fleet."""
        self._metrics = metrics
        self._resting = ZeroSeriesCache(() if cluster is None else (("cluster", cluster),))

    def families(self, publication: Publication) -> Families:
        """The lines of `publication`."""
        return Families(
            publication,
            tuple(
                () if metric.of.is_of_process else family_chunks(metric, publication, self._resting)
                for metric in self._metrics
            ),
        )


class Renderer:
    """Joins the lines of all clusters to an exposition."""

    def __init__(self, metrics: Sequence[Metric[Any]] = METRICS, process: ProcessCollector | None = None) -> None:
        self._metrics = metrics
        self._process = ProcessCollector(registry=None) if process is None else process
        self._clusters: dict[str | None, ClusterRenderer] = {}

    def render(self, *publications: Publication) -> Exposition:
        """The exposition of one publication, or of a fleet's."""
        self._clusters = {
            publication.cluster: self._clusters.get(publication.cluster)
            or ClusterRenderer(publication.cluster, self._metrics)
            for publication in publications
        }
        families = [self._clusters[publication.cluster].families(publication) for publication in publications]
        return self.joined(families, publications[0].process)

    def joined(self, clusters: Sequence[Families], process: ProcessStatus) -> Exposition:
        """The exposition of these clusters. The values of the process are of this instant."""
        of_process = replace(clusters[0].publication, process=process)
        families = [
            _Family(
                metric.name,
                metric.help,
                metric.kind,
                family_chunks(metric, of_process, _NOTHING_RESTS)
                if metric.of.is_of_process
                else tuple(chunk for cluster in clusters for chunk in cluster.chunks[position]),
            )
            for position, metric in enumerate(self._metrics)
        ]
        families += map(_process_family, self._process.collect())
        families = [family for family in families if family.lines]
        text = _chunks((family.text_head, family.lines) for family in families)
        openmetrics = _chunks([*((family.openmetrics_head, family.lines) for family in families), (b"# EOF\n", ())])
        return Exposition(
            text=_plain(TEXT, text),
            text_gzip=_compressed(TEXT, text),
            openmetrics=_plain(OPENMETRICS, openmetrics),
            openmetrics_gzip=_compressed(OPENMETRICS, openmetrics),
        )


_NOTHING_RESTS = ZeroSeriesCache()
"""Metrics of the process have no series by partition."""


@dataclass(frozen=True)
class _Family:
    name: str
    help: str
    kind: Kind
    lines: tuple[Chunk, ...]

    @property
    def text_head(self) -> bytes:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n".encode()

    @property
    def openmetrics_head(self) -> bytes:
        """OpenMetrics calls the family of a counter by its name without `_total`."""
        name = self.name.removesuffix("_total") if self.kind == "counter" else self.name
        return f"# HELP {name} {self.help}\n# TYPE {name} {self.kind}\n".encode()


def _process_family(metric: ForeignMetric) -> _Family:
    """CPU, memory and descriptors of this process under their usual names; none without /proc."""
    kind: Kind = "counter" if metric.type == "counter" else "gauge"
    lines = [f"{s.name}{labels_text(tuple(s.labels.items()))} {number(s.value)}\n" for s in metric.samples]
    chunk = Chunk("".join(lines).encode())
    return _Family(metric.samples[0].name, metric.documentation, kind, (chunk,))


def _chunks(parts: Iterable[tuple[bytes, tuple[Chunk, ...]]]) -> tuple[Chunk, ...]:
    """Joins small neighbours; big chunks stay, so that both formats share the same object."""
    chunks: list[Chunk] = []
    small: list[bytes] = []
    for head, lines in parts:
        small.append(head)
        for chunk in lines:
            if len(chunk.data) < _BIG_BYTES:
                small.append(chunk.data)
            else:
                chunks += [Chunk(b"".join(small)), chunk] if small else [chunk]
                small = []
    return (*chunks, Chunk(b"".join(small)))


def _plain(content_type: str, chunks: tuple[Chunk, ...]) -> Representation:
    return Representation(
        content_type=content_type, content_encoding=None, chunks=tuple(chunk.data for chunk in chunks)
    )


def _compressed(content_type: str, chunks: tuple[Chunk, ...]) -> Representation:
    """One gzip member from independently compressed chunks, which can be joined in any order."""
    checksum = length = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk.data, checksum)
        length += len(chunk.data)
    end = zlib.compressobj(wbits=-zlib.MAX_WBITS).flush(zlib.Z_FINISH)
    trailer = checksum.to_bytes(4, "little") + (length % 2**32).to_bytes(4, "little")
    pieces = (_GZIP_HEADER, *(chunk.deflated for chunk in chunks), end + trailer)
    return Representation(content_type=content_type, content_encoding="gzip", chunks=pieces)
