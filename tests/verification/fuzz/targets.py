"""Declares the targets: a reader, valid input to begin with, and what must hold for any input.

Each is read, or refused by the one exception that its callers expect; where there are two readers they agree.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from exporter import baseline
from exporter.config.fleet import load_fleet
from exporter.config.java_properties import from_java
from exporter.config.loading import ConfigurationError, load
from exporter.daemon import state_file
from exporter.daemon.kept_file import KeptFileDamagedError
from exporter.evaluation.field_types import ColumnType
from exporter.history.schema import TABLES, file_name
from exporter.history.writer import arrow_schema
from exporter.pipeline.files import HistoryFile, batch_of, damage_of
from exporter.recovery import plan_file
from exporter.snapshot import TransactionState
from exporter.transaction_log import records
from exporter.web.config import web_config
from tests.kafka.messages import test_describe_producers as producers_answers
from tests.kafka.messages import test_describe_share_group_offsets as share_answers
from tests.kafka.messages import test_list_offsets as offsets_answers
from tests.kafka.messages import test_list_transactions as listing_answers
from tests.kafka.messages import test_metadata as metadata_answers
from tests.kafka.messages.producers import by_hand as producers_by_hand
from tests.transaction_log.builders import key_of, value_of


@dataclass(frozen=True, slots=True)
class Target:
    """One reader. `take` returns whether the input was read, and raises what is a defect."""

    seeds: tuple[bytes, ...]
    """Each is read."""
    take: Callable[[bytes], bool]


def _with_tags(by_hand: Callable[[Callable[[], bytes]], bytes]) -> tuple[bytes, ...]:
    """A response without tagged fields, and one with an unknown one wherever one may be."""
    return by_hand(lambda: b"\0"), by_hand(lambda: b"\1\0\1x")


def _refused_by(refusal: type[Exception], read: Callable[[str], object]) -> Callable[[bytes], bool]:
    """A reader of text, which is what its caller makes of UTF-8."""

    def take(data: bytes) -> bool:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False
        try:
            read(text)
        except refusal:
            return False
        return True

    return take


def _record(data: bytes) -> bool:
    """The first byte says how many of the next are the key."""
    key, value = data[1 : 1 + data[0]] if data else b"", data[1 + data[0] :] if data else None
    try:
        records.decode(key, value)
    except records.MalformedRecordError:
        return False
    return True


def _with_length(key: bytes, value: bytes) -> bytes:
    return bytes([len(key)]) + key + value


def _state(data: bytes) -> bool:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            state_file.load(Path(file.name))
        except KeptFileDamagedError:
            return False
    return True


def _history(data: bytes) -> bool:
    """As a file of either table: why it is not one is a phrase, and the rows of what is one are counted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file_name(1, 2, "w"))
        path.write_bytes(data)
        whole = [
            file
            for file in (HistoryFile(path, table, "c", "d", -(2**62), 2**62) for table in TABLES)
            if damage_of(file, to_its_end=True) is None
        ]
        batch_of(whole, rows_max=1)
    return bool(whole)


def _parquet(table: str) -> bytes:
    """A row of everything, in few bytes: without dictionaries and statistics."""
    columns = TABLES[table]
    schema = arrow_schema(columns)
    arrays = [pa.array([_OF_KIND[column.kind]], type=schema.field(column.name).type) for column in columns]
    written = io.BytesIO()
    pq.write_table(pa.table(arrays, schema=schema), written, use_dictionary=False, write_statistics=False)
    return written.getvalue()


def _settings(text: str) -> object:
    flags = {"kafka.bootstrap.servers": "broker:9092"}
    return load(file=("config.yaml", text), environment={}, flags=flags, read=_nothing_is_there).settings


def _nothing_is_there(path: Path) -> str:
    raise OSError(f"{path}: no such file")


_RECORD: Final = records.TransactionRecord(
    transactional_id="app",
    producer_id=7,
    producer_epoch=1,
    timeout_ms=60_000,
    status=TransactionState.ONGOING,
    partitions=frozenset({("orders", 0), ("orders", 1)}),
    last_update_ms=5,
    start_ms=4,
)
_STATE: Final = {
    "format": state_file.FORMAT,
    "version": state_file.VERSION,
    "cluster_id": "id",
    "transactions": [["orders", 0, 7, 12, 1, 2, 0, -1, -1]],
    "transaction_log": {"cluster_id": "id", "offsets": [[0, 5]]},
}
_BASELINE: Final = {
    "format": baseline.FORMAT,
    "version": baseline.VERSION,
    "cluster_ids": ["id"],
    "made_at_ms": 5,
    "window_ms": 6,
    "thresholds": {"transactional_ids": [], "groups": [], "topics": []},
}
_OF_KIND: Final = {
    ColumnType.TEXT: "t",
    ColumnType.INTEGER: 1,
    ColumnType.LONG: 2,
    ColumnType.FLAG: True,
    ColumnType.INSTANT: 3,
    ColumnType.TEXTS: ["g"],
}
_HASH: Final = b"$2y$10$" + b"a" * 53

TARGETS: Final[dict[str, Target]] = {
    "DescribeProducers answer": Target(
        _with_tags(lambda tags: producers_by_hand(producers_answers.SMALL, 7, tags)),
        producers_answers.DECODERS.same_or_refused,
    ),
    "Metadata answer": Target(
        _with_tags(lambda tags: metadata_answers.by_hand(metadata_answers.SMALL, tags)),
        metadata_answers.DECODERS.same_or_refused,
    ),
    "ListOffsets answer": Target(
        _with_tags(lambda tags: offsets_answers.by_hand(offsets_answers.SMALL, tags)),
        offsets_answers.DECODERS.same_or_refused,
    ),
    "ListTransactions response": Target(
        _with_tags(lambda tags: listing_answers.by_hand(listing_answers.SMALL, tags)),
        listing_answers.DECODERS.same_or_refused,
    ),
    "DescribeShareGroupOffsets response": Target(
        (share_answers.RECORDED, *_with_tags(lambda tags: share_answers.by_hand(share_answers.SMALL, tags))),
        share_answers.is_read,
    ),
    "record of the transaction log": Target(
        tuple(_with_length(key_of("app"), value_of(_RECORD, flexible=flexible)) for flexible in (False, True)),
        _record,
    ),
    "settings": Target(
        (Path(__file__).with_name("settings.yaml").read_bytes(), b"kafka: {client.id: x}\nscan.interval: 40s\n"),
        _refused_by(ConfigurationError, _settings),
    ),
    "clusters of a fleet": Target(
        (b"clusters: {a: {kafka: {bootstrap.servers: 'a:1'}}}\n",),
        _refused_by(ConfigurationError, lambda text: load_fleet(("clusters.yaml", text))),
    ),
    "properties of Java's client": Target(
        (b"bootstrap.servers=a:1\nsecurity.protocol=PLAINTEXT\nclient.id=a\\\n  b\\u0041\n",),
        _refused_by(ConfigurationError, lambda text: from_java("client.properties", text)),
    ),
    "configuration of the web server": Target(
        (
            b"basic_auth_users: {me: " + _HASH + b"}\n",
            b"http_server_config: {http2: false, headers: {X-Frame-Options: deny}}\n",
        ),
        _refused_by(ConfigurationError, lambda text: web_config(Path("web.yml"), text)),
    ),
    "baselines": Target((json.dumps(_BASELINE).encode(),), _refused_by(baseline.BaselineError, baseline.parse)),
    "state file": Target((json.dumps(_STATE).encode(),), _state),
    "file of the history": Target(tuple(map(_parquet, TABLES)), _history),
    "plan of many aborts": Target(
        (plan_file.render_plan_file("id", 5, ()).encode(),), _refused_by(plan_file.PlanFileError, plan_file.parse)
    ),
}
