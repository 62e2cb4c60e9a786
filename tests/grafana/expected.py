"""Lists the queries that have no result in a scenario. All other queries have one, and these have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.grafana.reading import Target
from tests.grafana.scenarios import SCENARIOS

NEVER: Final = {"never_read"}
UNREAD: Final = {"unreachable", "never_read", "down", "frozen"}
"""Nothing is known now."""
LOG_READ: Final = {"transaction_log"}
"""The transaction log is read, a history recorded, and baselines used."""
NO_LOG: Final = set(SCENARIOS) - LOG_READ
NO_HISTORY: Final = NO_LOG - {"one_process"}
ALL_READ: Final = {"healthy", "failed_once", *LOG_READ}
NOT_SUSPECT: Final = {"healthy", "partly_read", "failed_once", *LOG_READ}
"""Nothing is suspect in what was read."""
NO_SUSPECT_NOW: Final = NOT_SUSPECT | UNREAD
NO_SUSPECT_EVER: Final = NOT_SUSPECT | NEVER
NOTHING_OPEN_HERE: Final = NO_SUSPECT_EVER
"""Only the hang is ever open on orders-1."""

EMPTY: Final[Mapping[str, set[str]]] = {
    "overview: Hanging transactions: A": UNREAD,
    "overview: Other suspects: A": UNREAD,
    "overview: Offsets held back by suspects: A": UNREAD,
    "overview: Unread partitions: A": UNREAD,
    "overview: Suspect transactions: A": ALL_READ,
    "overview: Suspect transactions: B": NO_SUSPECT_NOW,
    "overview: Suspect transactions: C": NO_SUSPECT_NOW,
    "overview: Blocked consumer groups: A": NO_SUSPECT_NOW,
    "overview: Blocked consumer groups: B": NO_SUSPECT_NOW,
    "overview: Firing alerts: A": ALL_READ - LOG_READ,
    "overview: Open transactions by verdict: A": NEVER,
    "overview: Offsets held back, worst ten partitions with a suspect: A": NO_SUSPECT_EVER,
    "overview: Age of suspects, worst ten partitions: A": NO_SUSPECT_EVER,
    "overview: Age of suspects, worst ten partitions: B": NEVER,
    "overview: Protection: A": UNREAD,
    "overview: Feature levels: A": UNREAD,
    "overview: Clients by transaction version: A": NO_LOG,
    "overview: Longest idle transactions, worst ten partitions: A": NEVER,
    "overview: Late transactions: A": NEVER,
    "overview: Late transactions: B": NEVER,
    "overview: Unread partitions, by reason: A": set(SCENARIOS) - {"partly_read", "fleet"},
    "overview: Inconclusive transactions, by reason: A": NO_SUSPECT_EVER,
    "overview: Transactions longer than usual, worst ten partitions: A": NO_LOG,
    "overview: Age of the baseline file: A": NO_LOG,
    "overview: Age of the baseline file: B": NO_LOG,
    "overview: Transactions per minute, by outcome: A": NO_LOG,
    "overview: Timed out within 15 minutes, by group: A": NO_LOG,
    "overview: Share of transactions that timed out, by group: A": NO_LOG,
    "overview: Duration of transactions, by group: A": NO_LOG,
    "overview: Duration of transactions, by group: B": NO_LOG,
    "overview: Duration of transactions, by group: C": NO_LOG,
    "overview: Marker latency, p99: A": NO_LOG,
    "overview: Producer initializations per minute, by group: A": NO_LOG,
    "overview: Transaction log: unread records: A": NO_LOG,
    "overview: Transaction log: partitions by state: A": NO_LOG,
    "overview: Transaction log: read and decode failures: A": NO_LOG,
    "overview: Transaction log: read and decode failures: B": NO_LOG,
    "overview: History: observations per minute: A": NO_HISTORY,
    "overview: History: observations per minute: B": NO_HISTORY,
    "overview: History: observations per minute: C": NO_HISTORY,
    "overview: History: observations in memory: A": NO_HISTORY,
    "overview: History: size on disk: A": NO_HISTORY,
    "overview: Age of the newest snapshot: A": NEVER,
    "overview: Partitions by result: A": NEVER,
    "partition: Longest open transaction: A": UNREAD,
    "partition: Open transactions: A": UNREAD,
    "partition: Late transactions: A": UNREAD,
    "partition: Longest idle transaction: A": UNREAD,
    "partition: Offsets held back: A": UNREAD,
    "partition: Suspects on this partition: A": ALL_READ,
    "partition: Suspects on this partition: B": NO_SUSPECT_NOW,
    "partition: Suspects on this partition: C": NO_SUSPECT_NOW,
    "partition: Blocked consumer groups: A": NO_SUSPECT_NOW,
    "partition: Blocked consumer groups: B": NO_SUSPECT_NOW,
    "partition: Firing alerts for this partition: A": NO_SUSPECT_NOW,
    "partition: Longest open transaction over time: A": NEVER,
    "partition: Longest open transaction over time: B": NO_SUSPECT_EVER,
    "partition: Longest open transaction over time: C": NEVER,
    "partition: Offsets held back over time: A": NOTHING_OPEN_HERE,
    "partition: Offsets held back over time: B": NO_SUSPECT_EVER,
    "partition: Longest idle transaction over time: A": NOTHING_OPEN_HERE,
    "partition: Open and late transactions over time: A": NOTHING_OPEN_HERE,
    "partition: Open and late transactions over time: B": NOTHING_OPEN_HERE,
    "fleet: Exporters, worst first: B": UNREAD,
    "fleet: Exporters, worst first: C": UNREAD,
    "fleet: Exporters, worst first: D": UNREAD,
    "fleet: Exporters, worst first: E": UNREAD,
    "fleet: Exporters, worst first: F": UNREAD,
    "fleet: Exporters, worst first: G": {"never_read", "down"},
    "fleet: Exporters, worst first: H": UNREAD,
    "fleet: Exporters, worst first: I": {"down"},
    "fleet: Hanging transactions, by exporter: A": NEVER,
    "fleet: Offsets held back by suspects, by exporter: A": NO_SUSPECT_EVER,
    "fleet: Share of partitions read: A": NEVER,
    "fleet: Age of the newest snapshot, by exporter: A": NEVER,
    "fleet: Timed out within 15 minutes, by exporter: A": NO_LOG,
    "fleet: Transaction log: unread records, by exporter: A": NO_LOG,
}


def is_empty(target: Target, scenario: str) -> bool:
    """Whether this question has no answer in this scenario."""
    return scenario in EMPTY.get(target.name, ())
