"""Decodes large responses in the one layout that this exporter knows, without tagged fields, as columns.

A later Kafka may add tagged fields to any structure of any version (KIP-482). A response with another layout than a decoder
knows is copied without tagged fields, and decoded again. The tests compare with kafka-python's decoders, but these are not
a fallback: they accept strings that end after the response, bytes after its end and forbidden nulls, and need quadratic
time for long varints.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from exporter.kafka.errors import MalformedResponseError
from exporter.primitives import UNREADABLE, MalformedBytesError, length, read_uvarint, skip_tags

STRING: Final = "string"
"""A compact string, or null."""
NUMBERS: Final = "numbers"
"""A compact array of int32."""
Fields = tuple["int | str | Fields", ...]
"""Fields of a structure: how many bytes a field takes, STRING, NUMBERS, or the fields of each structure of an array."""

_Decoded = TypeVar("_Decoded")


def decode_response(body: memoryview, api: str, fields: Fields, decode: Callable[[memoryview], _Decoded]) -> _Decoded:
    """The result of `decode` for `body`, or for `body` without tagged fields. Raises MalformedResponseError."""
    try:
        return decode(body)
    except UNREADABLE:
        with reading(api, body):
            return decode(memoryview(without_tags(body.tobytes(), fields)))


@contextmanager
def reading(api: str, body: memoryview) -> Iterator[None]:
    """Raises MalformedResponseError, with the API and the length of its response, in place of one of UNREADABLE."""
    try:
        yield
    except UNREADABLE as error:
        why = "it ends too early" if isinstance(error, IndexError | struct.error) else str(error)
        raise MalformedResponseError(f"{api} response of {len(body)} bytes: {why}") from error


def without_tags(body: bytes, fields: Fields) -> bytes:
    """The structure of these fields without its tagged fields. Raises one of UNREADABLE if `body` is anything else."""
    kept = bytearray()
    at = _copy(body, 0, fields, kept)
    if at != len(body):
        raise MalformedBytesError(f"{len(body) - at} bytes after its end")
    return bytes(kept)


def _copy(body: bytes, at: int, fields: Fields, kept: bytearray) -> int:
    for field in fields:
        begin = at
        if isinstance(field, int):
            at += field
        elif field == STRING:
            size, at = read_uvarint(body, at)
            at += max(size - 1, 0)
        else:
            count, at = length(body, at)
            if field == NUMBERS:
                at += 4 * count
            else:
                kept += body[begin:at]
                begin = at
                for _ in range(count):
                    at = begin = _copy(body, at, field, kept)  # type: ignore[arg-type]  # no str is left
        kept += body[begin:at]
    kept.append(0)
    return skip_tags(body, at)


def unaligned_view(body: memoryview, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A view that reads a `dtype` at every byte of `body`: indexed by offsets it gathers fields and copies nothing else."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(shape=(max(len(body) - size + 1, 0),), dtype=dtype, buffer=body, strides=(1,))
