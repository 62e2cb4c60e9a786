"""Reads and writes Kafka's primitive types of flexible versions: varints, compact strings, tagged fields (KIP-482).

Brokers' messages and records of `__transaction_state` consist of them, and neither room that reads these imports the other.
A reader is `(buffer, offset) -> (value, offset after it)`, and raises one of UNREADABLE if the buffer has no such value. A
length is not used before the bytes after it are there.
"""

from __future__ import annotations

import struct

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
_MAX_UVARINT_BYTES = 5


class MalformedBytesError(ValueError):
    """Bytes that are not the expected value."""


UNREADABLE = (IndexError, struct.error, UnicodeDecodeError, MalformedBytesError)


def uvarint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value >= 0x80:  # noqa: PLR2004
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def compact(text: str) -> bytes:
    """Encodes a compact string."""
    name = text.encode()
    return uvarint(len(name) + 1) + name


def read_uvarint(body: bytes | memoryview, at: int) -> tuple[int, int]:
    """Reads what `uvarint` wrote."""
    value = 0
    for shift in range(0, 7 * _MAX_UVARINT_BYTES, 7):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at
    raise MalformedBytesError("a length takes more than five bytes")


def length(body: bytes | memoryview, at: int) -> tuple[int, int]:
    """The length of a compact array or string that may not be null."""
    value, at = read_uvarint(body, at)
    if value == 0:
        raise MalformedBytesError("null where an array must be")
    return value - 1, at


def compact_string(body: bytes | memoryview, at: int) -> tuple[str, int]:
    """Decodes a compact string that may not be null."""
    size, at = length(body, at)
    if at + size > len(body):
        raise MalformedBytesError("a string reaches beyond the end")
    return str(body[at : at + size], "utf-8"), at + size


def nullable_string(body: bytes | memoryview, at: int) -> tuple[str | None, int]:
    """Decodes a compact string, or null."""
    return (None, at + 1) if body[at] == 0 else compact_string(body, at)


def no_tags(body: bytes | memoryview, at: int) -> int:
    """The offset after the count of tagged fields, which must be 0."""
    if body[at] != 0:
        raise MalformedBytesError("tagged fields")
    return at + 1


def tagged_field(body: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """Decodes one tagged field: its tag, where its value begins, and where it ends."""
    tag, at = read_uvarint(body, at)
    size, at = read_uvarint(body, at)
    if at + size > len(body):
        raise MalformedBytesError("a tagged field reaches beyond the end")
    return tag, at, at + size


def skip_tags(body: bytes | memoryview, at: int) -> int:
    """The offset after all tagged fields."""
    count, at = read_uvarint(body, at)
    for _ in range(count):
        _, _, at = tagged_field(body, at)
    return at
