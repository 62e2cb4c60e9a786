"""The exporter's decoder of ListTransactions and kafka-python's agree; damaged bytes are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.admin.transactions import ListTransactionsRequest, ListTransactionsResponse

from exporter.kafka.coordinators import Listing
from exporter.kafka.messages import list_transactions as listing
from exporter.kafka.messages.list_transactions import ListedTransactions, decode
from exporter.kafka.messages.versions import LIST_TRANSACTIONS
from exporter.primitives import compact, uvarint
from exporter.snapshot import TransactionState
from tests.kafka.counting import CALLS_MAX, OBJECTS_MAX, calls, objects
from tests.kafka.two_decoders import TwoDecoders, assert_refused_for_little

API_VERSION = LIST_TRANSACTIONS.highest

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
NAMES = st.one_of(st.sampled_from([state.value for state in TransactionState]), TEXT)
Rows = list[tuple[str, int, str]]
"""(transactional id, producer id, state)."""
ROWS = st.lists(st.tuples(TEXT, INT64, NAMES), max_size=6)
SMALL: Rows = [("application-1", 7, "Ongoing"), ("b", 2**40, "PrepareCommit"), ("c", -1, "Hibernating")]
MANY = 5_000


def by_kafka_python(rows: Rows, error: int = 0) -> bytes:
    state_type = ListTransactionsResponse.TransactionState
    response = ListTransactionsResponse(
        version=API_VERSION,
        error_code=error,
        unknown_state_filters=["Odd"],
        transaction_states=[
            state_type(version=API_VERSION, transactional_id=name, producer_id=producer_id, transaction_state=state)
            for name, producer_id, state in rows
        ],
    )
    return bytes(response.encode())


def by_hand(rows: Rows, tags: Callable[[], bytes]) -> bytes:
    """The body, field by field, with `tags()` at the end of every structure."""
    parts = [struct.pack(">ih", 0, 0), uvarint(1), uvarint(len(rows) + 1)]
    for name, producer_id, state in rows:
        parts += [compact(name), struct.pack(">q", producer_id), compact(state), tags()]
    return b"".join([*parts, tags()])


def rows_of(listed: ListedTransactions) -> list[tuple[str, int, TransactionState]]:
    return [(listed.transactional_id(i), int(listed.producer_id[i]), listed.state_of(i)) for i in range(len(listed))]


def expected(rows: Rows) -> list[tuple[str, int, TransactionState]]:
    return [(name, producer_id, TransactionState.of(state)) for name, producer_id, state in rows]


def by_oracle(body: bytes) -> tuple[int, list[tuple[str, int, TransactionState]]]:
    """As kafka-python reads it."""
    response = ListTransactionsResponse.decode(body, version=API_VERSION)
    rows = [
        (listed.transactional_id, listed.producer_id, listed.transaction_state)
        for listed in response.transaction_states
    ]
    return response.error_code, expected(rows)


def by_ours(body: memoryview) -> tuple[int, list[tuple[str, int, TransactionState]]]:
    listed = decode(body)
    return listed.error, rows_of(listed)


DECODERS = TwoDecoders(by_ours, by_oracle)


@given(ROWS, st.integers(-1, 90))
@example(SMALL, 0)
def test_a_response_encoded_by_kafka_python_decodes_to_its_transactions(rows: Rows, error: int) -> None:
    """Id, producer id and state of each; a state's name that is not known is UNKNOWN."""
    listed = decode(memoryview(by_kafka_python(rows, error)))

    assert listed.error == error
    assert rows_of(listed) == expected(rows)


@given(ROWS, st.data())
def test_tagged_fields_anywhere_are_stepped_over(rows: Rows, data: st.DataObject) -> None:
    """Additions of a later Kafka change nothing of what is read."""
    tags = st.sampled_from([b"\0", b"\1\0\1x", b"\2\0\0\x81\1\3abc"])
    assert rows_of(decode(memoryview(by_hand(rows, lambda: data.draw(tags))))) == expected(rows)


@pytest.mark.parametrize("tags", [b"\0", b"\1\0\1x"], ids=["plain", "tagged"])
def test_damaged_responses_are_refused_or_read_alike(tags: bytes) -> None:
    """Cut anywhere or prolonged it is refused; whatever bit is wrong, it is refused or read as kafka-python does."""
    body = by_hand(SMALL, lambda: tags)
    DECODERS.hold_to_the_byte(body, (b"\0", bytes(27)))
    DECODERS.flip_every_bit(body)


def test_a_number_of_transactions_that_are_not_there_reserves_nothing() -> None:
    """No length is used before its bytes are there."""
    body = struct.pack(">ih", 0, 0) + uvarint(1) + uvarint(2**31)
    assert_refused_for_little(decode, body)


@given(
    st.sets(st.sampled_from([state.value for state in TransactionState])),
    st.sets(st.integers(0, 2**63 - 1), max_size=200),
)
def test_the_request_is_encoded_as_kafka_python_does(states: set[str], producer_ids: set[int]) -> None:
    """Header and body are kafka-python's, byte for byte."""
    ours = listing.request(states, producer_ids)
    theirs = ListTransactionsRequest(
        version=API_VERSION, state_filters=sorted(states), producer_id_filters=sorted(producer_ids)
    )
    for request in (ours, theirs):
        request.with_header(correlation_id=5, client_id="client")

    assert ours.encode(framed=True, header=True) == bytes(theirs.encode(framed=True, header=True))


def test_a_listing_makes_objects_of_the_requested_producers() -> None:
    """5,000 others are columns."""
    body = memoryview(by_hand([(f"application-{i}", i, "Ongoing") for i in range(MANY)], lambda: b"\0"))

    def chosen() -> list[str]:
        return [listed.transactional_id for listed in Listing(1, decode(body), None).of_producers({7, MANY + 1, 3})]

    assert chosen() == ["application-3", "application-7"]
    assert objects(chosen) < OBJECTS_MAX
    # What finds where each begins is one loop over bytes, whose only calls append to arrays.
    assert calls(chosen) < CALLS_MAX + 4 * MANY
