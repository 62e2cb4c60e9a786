"""Reads the log before a hang: which batches have a broker's time, and which ones are before it."""

from __future__ import annotations

from exporter.kafka.collect.log_before import not_open_at_ms
from tests.kafka.log_batch import CONTROL, LOG_APPEND_TIME, log_batch


def batch(offset: int, timestamp_ms: int, attributes: int = 0) -> bytes:
    """One record at `offset`; its checksum does not count."""
    return log_batch([(timestamp_ms, None, b"", ())], base_offset=offset, producer=(7, 3), attributes=attributes)


def test_markers_and_append_times_before_the_start_count() -> None:
    """A record of a client does not, nor what is at the start offset or after it, nor what is before the piece."""
    log = [
        batch(0, 900, CONTROL),
        batch(1, 100, CONTROL),
        batch(2, 300, LOG_APPEND_TIME),
        batch(3, 200, CONTROL),
        batch(4, 5000),
        batch(5, 6000, LOG_APPEND_TIME),
        batch(6, 7000, CONTROL),
    ]
    assert not_open_at_ms(b"".join(log), 1, 5) == 300
    assert not_open_at_ms(b"".join(log[4:]), 4, 5) is None
    assert not_open_at_ms(b"", 0, 5) is None
