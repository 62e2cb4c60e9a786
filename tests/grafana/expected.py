"""Lists the queries that have no result in a scenario. All other queries have one, and these have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.grafana.reading import Target
from tests.grafana.scenarios import SCENARIOS

NEVER: Final = {"never_read"}
UNREAD: Final = {"unreachable", "never_read", "down", "frozen"}
"""Nothing is known now."""
TROUBLED: Final = {"transaction_log"}
"""The transaction log is read, a history recorded, baselines used, and the logs audited."""
IDLE: Final = {"idle"}
"""The same but for the history, and no transaction is open or in the log."""
NO_LOG: Final = set(SCENARIOS) - TROUBLED - IDLE
NOTHING_IN_LOG: Final = NO_LOG | IDLE
NOT_IDLE: Final = set(SCENARIOS) - IDLE
NO_HISTORY: Final = set(SCENARIOS) - TROUBLED - {"one_process"}
QUIET: Final = {"healthy", "failed_once", "replaced", *TROUBLED, *IDLE}
"""All is read, and no transaction holds anybody up."""
ALL_READ: Final = {"owner_silent", *QUIET}
NOT_SUSPECT: Final = {"partly_read", "one_of_two", *ALL_READ}
"""Nothing is suspect in what was read."""
NO_SUSPECT_NOW: Final = NOT_SUSPECT | UNREAD
NO_SUSPECT_EVER: Final = NOT_SUSPECT | NEVER
NO_BLOCK_NOW: Final = QUIET | {"partly_read", "one_of_two"} | UNREAD
FILLING: Final = {"owner_silent"}
"""An open transaction fills a disk."""
NOT_FILLING: Final = set(SCENARIOS) - FILLING

EMPTY: Final[Mapping[str, set[str]]] = {
    "overview: Hanging transactions: A": UNREAD,
    "overview: Other suspects: A": UNREAD,
    "overview: Offsets held back by suspects: A": UNREAD,
    "overview: Unread partitions: A": UNREAD,
    "overview: Suspect transactions: A": ALL_READ,
    "overview: Suspect transactions: B": NO_SUSPECT_NOW,
    "overview: Blocked consumer groups: A": QUIET,
    "overview: Blocked consumer groups: B": NO_BLOCK_NOW,
    "overview: Blocked consumer groups: C": set(SCENARIOS) - {"owner_silent"},
    "overview: Producers that cannot start: A": ALL_READ,
    "overview: Firing alerts: A": (QUIET - TROUBLED) | {"one_of_two"},
    "overview: Open transactions by verdict: A": NEVER | IDLE,
    "overview: Open transactions by verdict: B": NOT_IDLE,
    "overview: Offsets held back, worst ten partitions with a suspect: A": NO_SUSPECT_EVER,
    "overview: Offsets held back, worst ten partitions with a suspect: B": NEVER,
    "overview: Bytes held back, worst ten partitions: A": NOT_FILLING,
    "overview: Bytes held back, worst ten partitions: B": NEVER,
    "overview: Log directories with held partitions: A": QUIET | {"hanging", "one_process"},
    "overview: Log directories with held partitions: B": NOT_FILLING,
    "overview: Log directories with held partitions: C": NOT_FILLING,
    "overview: Age of suspects, worst ten partitions: A": NO_SUSPECT_EVER,
    "overview: Age of suspects, worst ten partitions: B": NEVER,
    "overview: Age of suspects, worst ten partitions: C": NEVER,
    "overview: Protection: A": UNREAD,
    "overview: Feature levels: A": UNREAD,
    "overview: Clients by transaction version: A": NOTHING_IN_LOG,
    "overview: Longest idle transactions, worst ten partitions: A": NEVER | IDLE,
    "overview: Longest idle transactions, worst ten partitions: B": NOT_IDLE,
    "overview: Late transactions: A": NEVER,
    "overview: Late transactions: B": NEVER,
    "overview: Unread partitions, by reason: A": set(SCENARIOS) - {"partly_read", "fleet"},
    "overview: Unread partitions, by reason: B": NEVER,
    "overview: Inconclusive transactions, by reason: A": NO_SUSPECT_EVER,
    "overview: Inconclusive transactions, by reason: B": NEVER,
    "overview: Transactions longer than usual, worst ten partitions: A": NOTHING_IN_LOG,
    "overview: Transactions longer than usual, worst ten partitions: B": NOT_IDLE,
    "overview: Age of the baseline file: A": NO_LOG,
    "overview: Age of the baseline file: B": NO_LOG,
    "overview: Age of the baseline file: C": NO_LOG,
    "overview: Audited transactions of the last day, by verdict: A": NOTHING_IN_LOG,
    "overview: Audited transactions of the last day, by verdict: B": NOT_IDLE,
    "overview: Findings of the audits of the last day, by verdict: A": NOTHING_IN_LOG,
    "overview: Findings of the audits of the last day, by verdict: B": NOT_IDLE,
    "overview: Age of the audit: A": NO_LOG,
    "overview: Transactions per minute, by outcome: A": NOTHING_IN_LOG,
    "overview: Transactions per minute, by outcome: B": NOT_IDLE,
    "overview: Timed out within 15 minutes, by group: A": NOTHING_IN_LOG,
    "overview: Timed out within 15 minutes, by group: B": NOT_IDLE,
    "overview: Share of transactions that timed out, by group: A": NOTHING_IN_LOG,
    "overview: Share of transactions that timed out, by group: B": NOT_IDLE,
    "overview: Duration of transactions, by group: A": NOTHING_IN_LOG,
    "overview: Duration of transactions, by group: B": NOTHING_IN_LOG,
    "overview: Duration of transactions, by group: C": NOTHING_IN_LOG,
    "overview: Duration of transactions, by group: D": NOT_IDLE,
    "overview: Marker latency, p99: A": NOTHING_IN_LOG,
    "overview: Marker latency, p99: B": NOT_IDLE,
    "overview: Producer initializations per minute, by group: A": NOTHING_IN_LOG,
    "overview: Producer initializations per minute, by group: B": NOT_IDLE,
    "overview: Transaction log: unread records: A": NO_LOG,
    "overview: Transaction log: partitions by state: A": NO_LOG,
    "overview: Transaction log: read and decode failures: A": NO_LOG,
    "overview: Transaction log: read and decode failures: B": NO_LOG,
    "overview: History: observations per minute: A": NO_HISTORY,
    "overview: History: observations per minute: B": NO_HISTORY,
    "overview: History: observations per minute: C": NO_HISTORY,
    "overview: History: observations in memory: A": NO_HISTORY,
    "overview: History: size on disk: A": NO_HISTORY,
    "overview: Failed requests: B": NEVER,
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
    "partition: Blocked consumer groups: A": QUIET,
    "partition: Blocked consumer groups: B": NO_BLOCK_NOW,
    "partition: Blocked consumer groups: C": set(SCENARIOS) - {"owner_silent"},
    "partition: Firing alerts for this partition: A": NO_BLOCK_NOW,
    "partition: Longest open transaction over time: A": NEVER,
    "partition: Longest open transaction over time: B": NO_SUSPECT_EVER,
    "partition: Longest open transaction over time: C": NEVER,
    "partition: Offsets held back over time: A": NEVER,
    "partition: Offsets held back over time: B": NO_SUSPECT_EVER,
    "partition: Longest idle transaction over time: A": NEVER,
    "partition: Open and late transactions over time: A": NEVER,
    "partition: Open and late transactions over time: B": NEVER,
    "fleet: Exporters, worst first: B": UNREAD,
    "fleet: Exporters, worst first: C": UNREAD,
    "fleet: Exporters, worst first: D": UNREAD,
    "fleet: Exporters, worst first: E": UNREAD,
    "fleet: Exporters, worst first: F": UNREAD,
    "fleet: Exporters, worst first: G": {"never_read", "down"},
    "fleet: Exporters, worst first: H": UNREAD,
    "fleet: Exporters, worst first: I": {"down"},
    "fleet: Hanging transactions, by exporter: A": NEVER,
    "fleet: Offsets held back by suspects, by exporter: A": NEVER,
    "fleet: Share of partitions read: A": NEVER,
    "fleet: Age of the newest snapshot, by exporter: A": NEVER,
    "fleet: Timed out within 15 minutes, by exporter: A": NOTHING_IN_LOG,
    "fleet: Timed out within 15 minutes, by exporter: B": NOT_IDLE,
    "fleet: Transaction log: unread records, by exporter: A": NO_LOG,
}


def is_empty(target: Target, scenario: str) -> bool:
    """Whether this question has no answer in this scenario."""
    return scenario in EMPTY.get(target.name, ())
