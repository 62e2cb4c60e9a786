"""The disk: bytes that open transactions hold back, and the log directories that fill by them."""

from __future__ import annotations

from typing import Final

from grafana.fields import COLOURED_CELL, NEUTRAL, NOT_READ, UNREAD, Shade, column, texts
from grafana.page import Json
from grafana.panels import DURATION, graph, table
from grafana.queries import EXPORTER, NONE_READ, none_of, now, or_unread, series

_OF_LOG_DIR: Final = f"{EXPORTER}, broker, log_dir"
_BYTES: Final[Json] = {"unit": "bytes", "custom.width": 90}
_DASH: Final = texts({-1: ("-", NEUTRAL)})


def held_bytes(selector: str, *, read: str) -> Json:
    held = f"topk(10, max by ({EXPORTER}, topic, partition) ({series('kafka_partition_held_back_bytes', selector)}))"
    return graph(
        "Bytes held back, worst ten partitions",
        "Bytes at the leader that Kafka can neither compact nor tier because of an open transaction. An estimate whose "
        "growth is right.",
        {"{{cluster}} {{topic}}-{{partition}}": held},
        nothing={NONE_READ: none_of(held, read=read)},
        shade=Shade.ATTENTION,
        unit="bytes",
        no_value=NOT_READ,
        beside=True,
    )


def log_dirs() -> Json:
    """A row for each log directory with a partition on which something is held back."""
    return table(
        "Log directories with held partitions",
        "Time until a log directory is full at the growth of what open transactions hold back there. A dash: nothing "
        "grows, or the free space is unknown (Kafka 3.3 or later has it). In a purple row they are unknown.",
        [
            or_unread(_of("kafka_log_dir_usable_bytes"), "log_dir"),
            _of("kafka_log_dir_full_seconds"),
            _of("kafka_log_dir_total_bytes"),
        ],
        no_value="No log directory has one.",
        no_cell="-",
        columns=(
            column("broker", "Broker", {"custom.width": 70}),
            column("log_dir", "Log directory", {"mappings": [UNREAD], **COLOURED_CELL, "custom.minWidth": 120}),
            column("Value #B", "Full in", {**DURATION, "custom.width": 100}),
            column("Value #A", "Free", {**_BYTES, "mappings": [_DASH]}),
            column("Value #C", "Size", _BYTES),
            column("cluster", "Cluster", {"custom.width": 100}),
            column("instance", "Exporter", {"custom.width": 110}),
        ),
        hidden=("job",),
        sorted_by={"Value #A": False, "Value #B": False},
    )


def _of(name: str) -> str:
    return now(f"max by ({_OF_LOG_DIR}) ({series(name)})")
