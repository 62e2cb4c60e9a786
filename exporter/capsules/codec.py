"""Writes records as JSON by their type hints, and reads them again; bytes and columns go into one pool beside the JSON.

Only classes that the hints name are ever made. A field that is missing gets its default, and an unknown one is passed over:
a new exporter can read an old capsule.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from exporter.capsules.cycle import CapsuleError

Rename = Callable[[str, str], str]
"""Called with a text and the name of the field that has it, which ends in ` key` for the keys of a mapping."""

_DTYPES: Final = frozenset({"|b1", "|i1", "<i2", "<i4", "<i8"})
_PLAIN: Final = (bool, int, float, str)


class BytePool:
    """Bytes of a capsule, each content once."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self._places: dict[bytes, tuple[int, int]] = {}
        self._pieces: dict[tuple[int, int], bytes] = {}
        self._left = len(content)
        """Bytes that may still be copied: pieces do not overlap."""

    def put(self, content: bytes) -> tuple[int, int]:
        """Returns (start, length) of the content."""
        if content not in self._places:
            self._places[content] = len(self.content), len(content)
            self.content += content
        return self._places[content]

    def get(self, start: int, length: int) -> bytes:
        """Returns the content at a place. Raises CapsuleError."""
        if (start, length) not in self._pieces:
            self._left -= length
            if not (0 <= start <= start + length <= len(self.content) and self._left >= 0):
                raise CapsuleError(f"{length} bytes at {start} are not in it, or overlap others")
            self._pieces[start, length] = bytes(self.content[start : start + length])
        return self._pieces[start, length]


def encoded(value: Any, hint: Any, pool: BytePool, rename: Rename = lambda text, _: text, field: str = "") -> Any:
    """Returns what JSON has for `value`, which is of the type `hint`."""
    hint = _without_none(hint)
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return rename(value, field)
    if isinstance(value, bytes):
        return pool.put(value)
    if isinstance(value, np.ndarray):
        return [value.dtype.str, *pool.put(value.tobytes())]
    if value is None or isinstance(value, bool | int | float | np.number):
        return value.item() if isinstance(value, np.number) else value
    if (hints := _fields_of(hint)) is not None:
        return {name: encoded(getattr(value, name), of, pool, rename, name) for name, of in hints.items()}
    if _is_mapping(origin):
        key, of = arguments
        keys = f"{field} key"
        return [[encoded(k, key, pool, rename, keys), encoded(v, of, pool, rename, field)] for k, v in value.items()]
    parts = value if isinstance(value, tuple | list) else sorted(value)
    return [encoded(part, of, pool, rename, field) for part, of in zip(parts, _hints_of(arguments, parts), strict=True)]


def decoded(data: Any, hint: Any, pool: BytePool) -> Any:
    """Returns the value of the type `hint` that JSON has as `data`. Raises CapsuleError, or what a constructor raises."""
    inner = _without_none(hint)
    if data is None and inner is not hint:
        return None
    origin, arguments = get_origin(inner) or inner, get_args(inner)
    if origin in {np.ndarray, npt.NDArray, bytes}:  # an alias of its own from NumPy 2.5 on
        *dtype, start, length = data
        if dtype and dtype[0] not in _DTYPES:
            raise CapsuleError(f"a column of {dtype[0]!r}")
        return np.frombuffer(pool.get(start, length), dtype=dtype[0]) if dtype else pool.get(start, length)
    if origin in _PLAIN and type(data) not in {origin, *((int,) if origin is float else ())}:
        raise CapsuleError(f"{str(data)[:40]!r} is not of the type {origin.__name__}")
    if origin in _PLAIN or (isinstance(origin, type) and issubclass(origin, Enum)):
        return origin(data)
    if (hints := _fields_of(inner)) is not None:
        return origin(**{name: decoded(data[name], of, pool) for name, of in hints.items() if name in data})
    if _is_mapping(origin):
        key, of = arguments
        return {decoded(k, key, pool): decoded(v, of, pool) for k, v in data}
    parts = [decoded(part, of, pool) for part, of in zip(data, _hints_of(arguments, data), strict=True)]
    return set(parts) if origin is set else frozenset(parts) if origin is frozenset else tuple(parts)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in {Union, types.UnionType}:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return hint


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _hints_of(arguments: tuple[Any, ...], parts: Collection[Any]) -> tuple[Any, ...]:
    return arguments[:1] * len(parts) if len(arguments) == 1 or arguments[-1] is ... else arguments


@cache
def _fields_of(hint: Any) -> Mapping[str, Any] | None:
    """Returns the hints of a record's fields: of a dataclass, a named tuple, or another class of the exporter."""
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return {field.name: hints[field.name] for field in dataclasses.fields(hint) if field.init}
    if not isinstance(hint, type) or not hint.__module__.startswith("exporter."):
        return None
    hints = get_type_hints(hint if hasattr(hint, "_fields") else vars(hint)["__init__"])
    return {name: of for name, of in hints.items() if name != "return"}
