"""`list`: transactions as their coordinators list them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter

from exporter.commands.clusters import cluster_prefix, on_each, status_of
from exporter.commands.context import Context
from exporter.commands.report import complain_of_gaps
from exporter.commands.rows import Row, for_people, in_format
from exporter.config.settings import Settings
from exporter.evaluation.humanize import humanize_count
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.coordinators import describe
from exporter.kafka.lookups import list_all
from exporter.snapshot import ACTIVE_STATES, CoordinatorTransaction, TransactionState

FOR_PEOPLE = {
    "state": "STATE",
    "producer_id": "PRODUCER",
    "coordinator": "COORDINATOR",
    "transactional_id": "TRANSACTIONAL ID",
}
HEADINGS = {
    "transactional_id": "TransactionalId",
    "coordinator": "Coordinator",
    "producer_id": "ProducerId",
    "state": "TransactionState",
}


def run(context: Context, settings: Settings) -> int:
    """Prints the listing; returns the exit status."""
    options = context.options
    wanted = tuple(map(TransactionState.of, options.states))
    results = on_each(
        settings,
        lambda _, collector: collector.query(lambda client: _ask(client, options.duration_filter, wanted)),
    )
    found = [(result.cluster, *result.value) for result in results if result.value is not None]
    rows = [
        {"cluster": cluster.name, **row} if settings.clusters else row
        for cluster, transactions, _ in found
        for row in listed(
            one for one in transactions if options.transactional_id_pattern.fullmatch(one.transactional_id)
        )
    ]
    if found:
        headings = {"cluster": "Cluster", **HEADINGS} if settings.clusters else HEADINGS
        words = partial(in_words, rows, is_fleet=bool(settings.clusters))
        print(in_format(options.format, headings, rows, for_people=words))
    missing = [f"{cluster_prefix(cluster)}{gap}" for cluster, _, gaps in found for gap in gaps]
    return status_of(results, is_incomplete=complain_of_gaps(missing))


def in_words(rows: Sequence[Row], *, is_fleet: bool) -> str:
    headings = {"cluster": "CLUSTER", **FOR_PEOPLE} if is_fleet else FOR_PEOPLE
    return for_people(headings, rows, "No transaction matches these options.")


def listed(transactions: Iterable[CoordinatorTransaction]) -> list[Row]:
    """Returns a row for each transaction, in the order of their ids."""
    return [
        {
            "transactional_id": transaction.transactional_id,
            "coordinator": transaction.coordinator,
            "producer_id": transaction.producer_id,
            "state": transaction.state.value,
        }
        for transaction in sorted(transactions, key=attrgetter("transactional_id"))
    ]


async def _ask(
    client: ClusterClient, longer_than_ms: int | None, wanted: tuple[TransactionState, ...]
) -> tuple[tuple[CoordinatorTransaction, ...], list[str]]:
    """The listing, and what is missing; with a duration only those active transactions that have run for longer.

    The protocol's own duration filter ignores the state, so idle and finished ids pass it; this filter excludes them.
    """
    if longer_than_ms is None or longer_than_ms < 0:
        return await list_all(client, wanted)
    active = ACTIVE_STATES & set(wanted) if wanted else ACTIVE_STATES
    if not active:  # ended transactions have no duration; and a request without states would list all
        return (), []
    found, gaps = await list_all(client, tuple(active))
    described, unclear = await describe(client, found)
    if unclear:
        gaps.append(f"duration unknown, since changed or not described: {humanize_count(len(unclear), 'transaction')}")
    began_before_ms = time.time() * 1000 - longer_than_ms
    return tuple(
        transaction
        for transaction in described
        if transaction.start_ms is not None and transaction.start_ms < began_before_ms
    ), gaps
