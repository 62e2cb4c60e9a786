"""Kafka's primitive types: what is written is read again, and bytes that are cut or too long are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs.types import UnsignedVarInt32

from exporter.primitives import (
    UNREADABLE,
    MalformedBytesError,
    compact,
    compact_string,
    length,
    no_tags,
    nullable_string,
    read_uvarint,
    skip_tags,
    tagged_field,
    uvarint,
)


@given(st.integers(0, 2**31 - 1))
def test_a_varint_is_that_of_kafka_python(value: int) -> None:
    encoded = uvarint(value)

    assert encoded == UnsignedVarInt32.encode(value)
    assert read_uvarint(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))


@given(st.text(max_size=200))
def test_a_string_is_read_as_it_was_written(text: str) -> None:
    encoded = compact(text)

    assert compact_string(encoded + b"?", 0) == nullable_string(encoded, 0) == (text, len(encoded))


@given(st.text(min_size=1, max_size=200), st.data())
def test_a_string_that_is_cut_is_refused(text: str, data: st.DataObject) -> None:
    """Not read as a shorter one: it would be another topic."""
    encoded = compact(text)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]

    with pytest.raises(UNREADABLE):
        compact_string(cut, 0)


TAGGED = b"\x02" + b"\x00\x03abc" + b"\x01\x00"
"""Two tagged fields: tag 0 of three bytes, tag 1 of none."""


def test_tagged_fields_are_passed_over() -> None:
    assert skip_tags(b"\x00", 0) == no_tags(b"\x00", 0) == 1
    assert tagged_field(TAGGED, 1) == (0, 3, 6)
    assert skip_tags(TAGGED + b"?", 0) == len(TAGGED)


@pytest.mark.parametrize("end", range(len(TAGGED)))
def test_tagged_fields_that_are_cut_are_refused(end: int) -> None:
    with pytest.raises(UNREADABLE):
        skip_tags(TAGGED[:end], 0)


@pytest.mark.parametrize(
    ("read", "body", "reason"),
    [
        (read_uvarint, b"\xff" * 6, "more than five bytes"),
        (length, b"\x00", "null"),
        (compact_string, b"\x00", "null"),
        (no_tags, b"\x01\x00\x00", "tagged fields"),
    ],
)
def test_the_reason_is_named(read: Callable[[bytes, int], Any], body: bytes, reason: str) -> None:
    with pytest.raises(MalformedBytesError, match=reason):
        read(body, 0)
