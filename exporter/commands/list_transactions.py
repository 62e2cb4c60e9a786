"""`list`: transactions as their coordinators list them."""

from __future__ import annotations

import argparse
import re
import time

from exporter.commands.report import complain, complain_of_gaps, with_collector
from exporter.commands.rows import Row, as_csv, as_json, as_table
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.kafka.collect import Collector
from exporter.kafka.coordinators import describe
from exporter.kafka.inquiry import Inquiry
from exporter.kafka.questions import Listings, list_all
from exporter.snapshot import ACTIVE_STATES, CoordinatorTransaction, TransactionState

HEADINGS = {
    "transactional_id": "TransactionalId",
    "coordinator": "Coordinator",
    "producer_id": "ProducerId",
    "state": "TransactionState",
}


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the listing; the exit status."""
    try:
        pattern = re.compile(options.transactional_id_pattern or ".*", re.DOTALL)
    except re.error as error:
        complain(f"--transactional-id-pattern is no regular expression: {error}")
        return ExitStatus.WRONG_USAGE
    states = tuple(TransactionState.of(name) for name in (options.states or "").split(",") if name)
    if TransactionState.UNKNOWN in states:
        known = ", ".join(state.value for state in TransactionState if state is not TransactionState.UNKNOWN)
        complain(f"--states names a state that does not exist; there are {known}")
        return ExitStatus.WRONG_USAGE
    return with_collector(settings, lambda collector: _list(options, collector, pattern, states))


def _list(
    options: argparse.Namespace, collector: Collector, pattern: re.Pattern[str], states: tuple[TransactionState, ...]
) -> int:
    listings, transactions = collector.inquire(lambda inquiry: _ask(inquiry, options.duration_filter, states))
    rows: list[Row] = [
        {
            "transactional_id": it.transactional_id,
            "coordinator": it.coordinator,
            "producer_id": it.producer_id,
            "state": it.state.value,
        }
        for it in sorted(transactions, key=lambda it: it.transactional_id)
        if pattern.fullmatch(it.transactional_id)
    ]
    if options.format == "json":
        print(as_json(rows))
    elif options.format == "csv":
        print(as_csv(rows, list(HEADINGS)))
    else:
        print(as_table(HEADINGS, rows))
    return ExitStatus.INCOMPLETE if complain_of_gaps(listings.gaps) else ExitStatus.ANSWERED


async def _ask(
    inquiry: Inquiry, longer_than_ms: int | None, states: tuple[TransactionState, ...]
) -> tuple[Listings, tuple[CoordinatorTransaction, ...]]:
    """The listing, and with a duration those active transactions that run for longer.

    The protocol's own duration filter ignores the state, so that idle and finished ids pass it; ours does not.
    """
    if longer_than_ms is None or longer_than_ms < 0:
        listings = await list_all(inquiry, states)
        return listings, listings.transactions
    listings = await list_all(inquiry, tuple(ACTIVE_STATES & set(states)) if states else tuple(ACTIVE_STATES))
    described, _ = await describe(inquiry, listings.transactions)
    now_ms = time.time() * 1000
    return listings, tuple(it for it in described if 0 <= it.start_time_ms < now_ms - longer_than_ms)
