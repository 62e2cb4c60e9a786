"""ListTransactions (API key 66, version 0): the request, and a decoder for its response that makes no objects.

Version 1 adds a filter by duration, which ignores the state; every broker that lists transactions offers version 0. The
response, after the response header (ListTransactionsResponse.json; every length is an unsigned varint of n + 1):

    throttle_time_ms i32 | error i16 | unknown_state_filters n+1, compact strings | transactions n+1, each:
        transactional_id compact string | producer_id i64 | state compact string | tagged fields
    | tagged fields

`decode` steps from transaction to transaction by the two lengths and notes where each begins; numpy reads the rest at once.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from exporter.kafka.errors import MalformedResponseError
from exporter.kafka.messages.raw_request import RawRequest
from exporter.kafka.messages.response import reading, unaligned_view
from exporter.kafka.messages.versions import LIST_TRANSACTIONS
from exporter.primitives import (
    compact,
    compact_string,
    length,
    skip_tags,
    uvarint,
)
from exporter.snapshot import BoolColumn, Int8Column, Int64Column, TransactionState

_ERROR = struct.Struct(">h")
_PRODUCER_ID_BYTES = 8
_ONE_BYTE = 0x80
_STATES = tuple(TransactionState)


@dataclass(frozen=True, kw_only=True, eq=False)
class ListedTransactions:
    """The transactions that one coordinator lists, as columns of N transactions."""

    error: int = 0
    """Kafka error code."""
    body: bytes = b""
    """The response; the transactional ids are in it."""
    id_at: Int64Column
    """(N,) where the length of each id is."""
    producer_id: Int64Column
    state: Int8Column
    """(N,) index into the members of TransactionState."""

    def __len__(self) -> int:
        return len(self.producer_id)

    def transactional_id(self, index: int) -> str:
        size, at = length(self.body, int(self.id_at[index]))
        return str(self.body[at : at + size], "utf-8", "replace")

    def state_of(self, index: int) -> TransactionState:
        return _STATES[int(self.state[index])]

    def is_in(self, states: Collection[TransactionState]) -> BoolColumn:
        """(N,) true for transactions in one of `states`."""
        return np.isin(self.state, [index for index, state in enumerate(_STATES) if state in states])


NOTHING_LISTED = ListedTransactions(
    id_at=np.empty(0, dtype=np.int64), producer_id=np.empty(0, dtype=np.int64), state=np.empty(0, dtype=np.int8)
)


def request(states: Collection[str], producer_ids: Collection[int]) -> RawRequest:
    """Requests the transactions in `states` and of `producer_ids`; none of either means any."""
    names = sorted(states)
    ids = np.array(sorted(producer_ids), dtype=">i8")
    parts = [uvarint(len(names) + 1), *map(compact, names), uvarint(len(ids) + 1), ids.tobytes(), b"\0"]
    return RawRequest(LIST_TRANSACTIONS, b"".join(parts))


def decode(body: memoryview) -> ListedTransactions:
    """The listed transactions. Raises MalformedResponseError if `body` is not exactly such a response."""
    with reading("ListTransactions", body):
        return _decode(body.tobytes())


def _decode(body: bytes) -> ListedTransactions:
    (error,) = _ERROR.unpack_from(body, 4)
    unknown, at = length(body, 4 + _ERROR.size)
    for _ in range(unknown):
        _, at = compact_string(body, at)
    count, at = length(body, at)
    places = (array("q"), array("q"), array("q"), array("q"))
    at = _walk(body, at, count, places)
    if skip_tags(body, at) != len(body):
        raise MalformedResponseError("bytes after its end")
    id_at, producer_id_at, state_at, state_size = (np.frombuffer(offsets, dtype=np.int64) for offsets in places)
    view = memoryview(body)
    return ListedTransactions(
        error=error,
        body=body,
        id_at=id_at,
        producer_id=unaligned_view(view, ">i8")[producer_id_at].astype(np.int64),
        state=_states(view, state_at, state_size),
    )


def _walk(body: bytes, at: int, count: int, places: tuple[array[int], array[int], array[int], array[int]]) -> int:
    """Notes for each transaction the offsets of its id's length, producer id and state, and the state's length."""
    ids, producer_ids, states, sizes = (offsets.append for offsets in places)
    for _ in range(count):
        ids(at)
        size = body[at]
        state_at = at + size + _PRODUCER_ID_BYTES
        state_size = body[state_at] if 0 < size < _ONE_BYTE else 0
        if 0 < state_size < _ONE_BYTE and not body[state_at + state_size]:
            producer_ids(at + size)
            states(state_at + 1)
            sizes(state_size - 1)
            at = state_at + state_size + 1
        else:  # a length of more than a byte, or tagged fields
            size, at = length(body, at)
            producer_ids(at + size)
            size, at = length(body, at + size + _PRODUCER_ID_BYTES)
            states(at)
            sizes(size)
            at = skip_tags(body, at + size)
    return at


def _states(body: memoryview, at: Int64Column, size: Int64Column) -> Int8Column:
    """(N,) index into the members of TransactionState; UNKNOWN for any other name."""
    found = np.full(len(at), _STATES.index(TransactionState.UNKNOWN), dtype=np.int8)
    for index, state in enumerate(_STATES):
        name = state.value.encode()
        same = np.flatnonzero(size == len(name))
        if len(same):
            is_it = unaligned_view(body, f"S{len(name)}")[at[same]] == name
            found[same[is_it]] = index
    return found
