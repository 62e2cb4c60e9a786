"""Bytes made once per publication: two formats, each plain and gzip, so that a scrape only sends.

Law of this file: immutable bytes out. What is big is rendered once, compressed once, and shared by both formats.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from prometheus_client import Metric as ForeignMetric
from prometheus_client import ProcessCollector

from exporter.publication.facts import Publication
from exporter.publication.families import Kind, Metric
from exporter.publication.metrics import METRICS
from exporter.publication.negotiation import accepts_gzip, prefers_openmetrics
from exporter.publication.rendering import PartitionLabels, family_lines, labels_text, number

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_BIG_BYTES = 64 * 1024
"""A family of at least this size is a chunk of its own, shared by both formats."""
_GZIP_LEVEL = 1
"""Series of one family differ in a few bytes: higher levels cost five times the time for a fifth of the size."""
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Representation:
    """One way to say it, ready to be sent."""

    content_type: str
    content_encoding: str | None
    chunks: tuple[bytes, ...]

    @property
    def length(self) -> int:
        """In bytes."""
        return sum(map(len, self.chunks))

    @property
    def body(self) -> bytes:
        """All chunks as one: a copy."""
        return b"".join(self.chunks)


@dataclass(frozen=True, kw_only=True)
class Exposition:
    """Everything that `/metrics` may answer until the next publication."""

    text: Representation
    text_gzip: Representation
    openmetrics: Representation
    openmetrics_gzip: Representation

    def choose(self, accept: str, accept_encoding: str) -> Representation:
        """What a client with these two headers gets; plain text when it asks for nothing that we have."""
        if prefers_openmetrics(accept):
            return self.openmetrics_gzip if accepts_gzip(accept_encoding) else self.openmetrics
        return self.text_gzip if accepts_gzip(accept_encoding) else self.text


class Renderer:
    """Makes expositions; between two of them it keeps the label text of the partitions and nothing else."""

    def __init__(self, metrics: Sequence[Metric] = METRICS, process: ProcessCollector | None = None) -> None:
        self._metrics = metrics
        self._labels: dict[str | None, PartitionLabels] = {}
        self._process = ProcessCollector(registry=None) if process is None else process

    def render(self, *publications: Publication) -> Exposition:
        """The exposition of one publication, or of a fleet's. The values of `process_*` are of this instant, too."""
        self._labels = {it.cluster: self._labels.get(it.cluster) or PartitionLabels() for it in publications}
        families = [
            _Family(metric.name, metric.help, metric.kind, self._lines(metric, publications))
            for metric in self._metrics
        ]
        families += _process_families(self._process)
        families = [family for family in families if family.lines]
        text = _chunks((family.text_head, family.lines_bytes) for family in families)
        openmetrics = _chunks(
            [*((family.openmetrics_head, family.lines_bytes) for family in families), (b"# EOF\n", b"")]
        )
        deflated: dict[int, bytes] = {}
        return Exposition(
            text=Representation(content_type=TEXT, content_encoding=None, chunks=text),
            text_gzip=_compressed(TEXT, text, deflated),
            openmetrics=Representation(content_type=OPENMETRICS, content_encoding=None, chunks=openmetrics),
            openmetrics_gzip=_compressed(OPENMETRICS, openmetrics, deflated),
        )

    def _lines(self, metric: Metric, publications: Sequence[Publication]) -> str:
        spoken_of = publications[:1] if metric.is_of_process else publications
        return "".join([family_lines(metric, it, self._labels[it.cluster]) for it in spoken_of])


@dataclass(frozen=True)
class _Family:
    name: str
    help: str
    kind: Kind
    lines: str

    @cached_property
    def lines_bytes(self) -> bytes:
        # Names come from brokers: what is no valid text must not cost the whole answer.
        return self.lines.encode("utf-8", "replace")

    @property
    def text_head(self) -> bytes:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n".encode()

    @property
    def openmetrics_head(self) -> bytes:
        """OpenMetrics calls the family of a counter by its name without `_total`."""
        name = self.name.removesuffix("_total") if self.kind == "counter" else self.name
        return f"# HELP {name} {self.help}\n# TYPE {name} {self.kind}\n".encode()


def _process_families(process: ProcessCollector) -> list[_Family]:
    """CPU, memory and descriptors of this process under their usual names; none where there is no /proc."""
    return [_process_family(metric) for metric in process.collect()]


def _process_family(metric: ForeignMetric) -> _Family:
    kind: Kind = "counter" if metric.type == "counter" else "gauge"
    lines = [
        f"{s.name}{labels_text(list(s.labels), list(s.labels.values()))} {number(s.value)}\n" for s in metric.samples
    ]
    return _Family(metric.samples[0].name, f"{metric.documentation} Cached once per cycle.", kind, "".join(lines))


def _chunks(parts: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, ...]:
    """Small neighbours joined; big families left as they are, so that both formats hold the same object."""
    chunks: list[bytes] = []
    small: list[bytes] = []
    for head, lines in parts:
        small.append(head)
        if len(lines) < _BIG_BYTES:
            small.append(lines)
        else:
            chunks += [b"".join(small), lines]
            small = []
    return (*chunks, b"".join(small))


def _compressed(content_type: str, chunks: tuple[bytes, ...], deflated: dict[int, bytes]) -> Representation:
    """One gzip member out of independently deflated chunks: `deflated` lets formats share the work on a chunk.

    Every chunk has a compressor of its own, so nothing refers across its border, and a flush ends it at a whole byte:
    the pieces can be put together freely.
    """
    checksum = length = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
        length += len(chunk)
        if id(chunk) not in deflated:
            compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
            deflated[id(chunk)] = compressor.compress(chunk) + compressor.flush(zlib.Z_SYNC_FLUSH)
    end = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS).flush(zlib.Z_FINISH)
    trailer = checksum.to_bytes(4, "little") + (length % 2**32).to_bytes(4, "little")
    pieces = (_GZIP_HEADER, *(deflated[id(chunk)] for chunk in chunks), end + trailer)
    return Representation(content_type=content_type, content_encoding="gzip", chunks=pieces)
