"""Reads a transaction's first record: what is shown of it, and what a hostile or changed log makes of it."""

from __future__ import annotations

import pytest
from kafka.record import default_records

from exporter.daemon.incidents_file import in_words
from exporter.kafka.collect import first_records
from exporter.kafka.collect.first_records import FirstRecord, of_records
from exporter.kafka.errors import MalformedResponseError
from exporter.snapshot import TransactionKey
from tests.kafka.log_batch import GZIP, batch, log_batch

OPENED = TransactionKey("orders", 1, 7, 0)


def records(*headers: str, compression: int = 0, value: bytes = b"value") -> bytes:
    """A batch of two records at offset 0, with headers at the first."""
    first = (1000, b"key", value, [(name, b"secret") for name in headers])
    second = (2000, b"key", value, [("of the second", b"")])
    return log_batch([first, second], compression=compression, producer=(7, 3))


@pytest.mark.parametrize("compression", [0, GZIP])
def test_timestamp_and_names_of_headers_are_read(compression: int) -> None:
    """Of the first record of the batch, compressed or not; never a key or a value."""
    read = of_records(records("trace", "source", compression=compression, value=b"v" * 10_000), OPENED)

    assert read == FirstRecord(timestamp_ms=1000, headers=("trace", "source"))
    assert in_words(read) == (
        "its first record has the timestamp 1970-01-01 00:00:01 UTC and the headers trace, source"
    )


def test_a_large_compressed_batch_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client could have made a few bytes very large; the timestamp is in the batch's header."""
    monkeypatch.setattr(first_records, "COMPRESSED_BYTES_MAX", 50)
    read = of_records(records("trace", compression=GZIP, value=b"v" * 10_000), OPENED)

    assert read == FirstRecord(timestamp_ms=1000, unread="its headers were not read: its batch is compressed and large")
    assert in_words(read).endswith("00:00:01 UTC; its headers were not read: its batch is compressed and large")


def test_a_batch_of_a_codec_that_is_not_installed_has_its_timestamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has no lz4, snappy or zstd of its own: that is no fault of the broker."""
    compressed = records("trace", compression=GZIP, value=b"v" * 10_000)
    monkeypatch.setattr(default_records.codecs, "has_gzip", lambda: False)
    read = of_records(compressed, OPENED)

    assert read.timestamp_ms == 1000
    assert read.unread == "its headers were not read: its batch is compressed, and the codec is not installed here"


@pytest.mark.parametrize(
    ("log", "opened"),
    [(batch(5), OPENED), (batch(0, producer_id=8), OPENED), (b"", OPENED)],
    ids=["gone", "another producer's", "empty"],
)
def test_another_record_is_not_taken_for_it(log: bytes, opened: TransactionKey) -> None:
    read = of_records(log, opened)

    assert read.timestamp_ms == -1
    assert in_words(read) == f"its first record could not be read: {read.unread}"


@pytest.mark.parametrize("compression", [0, GZIP])
def test_every_flipped_bit_is_a_record_or_a_fault(compression: int) -> None:
    """Any bytes give a record or a MalformedResponseError."""
    made = records("trace", compression=compression, value=b"v" * 1000)
    for bit in range(len(made) * 8):
        damaged = bytearray(made)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            of_records(bytes(damaged), OPENED)
        except MalformedResponseError:
            continue


def test_names_of_headers_are_shown_as_text() -> None:
    """They are whatever a client chose, and go into logs, pages and Markdown."""
    assert in_words(FirstRecord(timestamp_ms=0, headers=("<b>\n`x`",))).endswith("the headers ?b???x?")
    many = in_words(FirstRecord(timestamp_ms=0, headers=tuple(f"h{number}" for number in range(30))))
    assert "h19" in many
    assert "h20" not in many
