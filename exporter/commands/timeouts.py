"""`timeouts`: lists transactions that their coordinators timed out or fenced, from the transaction log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporter.commands.context import Context
from exporter.commands.report import complain, complain_of_gaps, expected_cluster, waiting_notice
from exporter.commands.rows import Row, for_people, in_format, output_format
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.humanize import humanize_count, humanize_duration, humanize_names
from exporter.kafka.log_progress import LogRecord
from exporter.kafka.state_log import LogUnreadableError, StateLog
from exporter.publication.page.humanize import humanize_instant
from exporter.snapshot import ClusterIdentity
from exporter.transaction_log.ledger import Ledger
from exporter.transaction_log.records import MalformedRecordError, UnknownVersion, decode
from exporter.transaction_log.timeouts import EndedByCoordinator, ended_by_coordinator

READ_SECONDS = 0.2
SECONDS_MAX = 60
FAILING_SECONDS_MAX = 5
"""The wait for partitions that have a failure all the time; a leader that moves is found sooner."""
PARTITIONS_MAX = 5
"""Partitions that a sentence about unread ones names."""
BEGINNINGS_MS = 60 * 60 * 1000
"""Read before the wanted time: a transaction whose beginning was not read may be one that its client aborted."""
KEYS = ("at_ms", "transactional_id", "outcome", "duration_ms", "timeout_ms", "partitions")
FOR_PEOPLE = {
    "at": "ENDED",
    "outcome": "OUTCOME",
    "duration": "AFTER",
    "timeout": "TIME-OUT",
    "transactional_id": "TRANSACTIONAL ID",
    "partitions": "PARTITIONS",
}
HEADINGS = {
    "at": "Ended",
    "transactional_id": "TransactionalId",
    "outcome": "Outcome",
    "duration": "After",
    "timeout": "TimeOut",
    "partitions": "TopicPartitions",
}


def run(context: Context, settings: Settings) -> int:
    """Prints the timeouts, newest first; returns the exit status."""
    options, name = context.options, context.options.transactional_id
    since_ms = int(time.time() * 1000) - options.since
    try:
        with waiting_notice(f"reading __transaction_state, for up to {SECONDS_MAX} s"):
            found = _read(settings, since_ms - BEGINNINGS_MS, name, until=time.monotonic() + SECONDS_MAX)
    except LogUnreadableError as error:
        return complain(f"__transaction_state cannot be read: {error}")
    if name is not None and not found.is_named:
        complain(f"no record since {humanize_instant(since_ms - BEGINNINGS_MS)} is about transactional id {name!r}")
    wanted = (one for one in found.ended if one.at_ms >= since_ms and name in {None, one.transactional_id})
    recent = sorted(wanted, key=lambda transaction: -transaction.at_ms)
    rows = [row(transaction) for transaction in recent]
    output, words = output_format(options.format), in_words(rows)
    whose = "" if name is None else f" of transactional id {name!r}"
    nothing = f"No transaction{whose} was ended by its coordinator in the last {humanize_duration(options.since)}."
    headings = HEADINGS if output == "tsv" else dict.fromkeys(KEYS, "")
    print(in_format(output, headings, rows, for_tsv=words, for_people=lambda: table(words, nothing)))
    return ExitStatus.INCOMPLETE if complain_of_gaps(found.gaps) else ExitStatus.ANSWERED


@dataclass(slots=True)
class _LogContents:
    ended: list[EndedByCoordinator] = field(default_factory=list)
    is_named: bool = False
    """True if a record is about the wanted id."""
    gaps: list[str] = field(default_factory=list)
    undecoded: int = 0


def _read(settings: Settings, from_ms: int, name: str | None, *, until: float) -> _LogContents:
    """Reads from the first record written at `from_ms` to the present end of the log. Raises LogUnreadableError.

    `name` is the wanted transactional id, if there is one.
    """
    log = StateLog(settings.kafka, since_ms=from_ms, positions={})
    ledger, found = Ledger(), _LogContents()
    ends: dict[int, int] = {}
    missing: set[int] = set()
    last_hope = time.monotonic()
    try:
        expected = expected_cluster(settings)
        another = expected.contradiction(ClusterIdentity(cluster_id=log.cluster_id))
        if another is not None:
            raise LogUnreadableError(f"{another}{expected.way_on}")
        while True:
            batch = log.read(READ_SECONDS)
            missing.update(batch.gaps)
            for record in batch.records:
                _take(record, ledger, found, name)
            if log.failure is not None:
                raise LogUnreadableError(log.failure)
            for partition, end in log.ends.items():
                ends.setdefault(partition, end)  # what is written later is not waited for
            unread = [
                partition
                for partition in log.partitions
                if partition not in ends or log.positions.get(partition, -1) < ends[partition]
            ]
            now = time.monotonic()
            if not set(unread) <= log.failures.keys():
                last_hope = now
            if not unread or now >= min(until, last_hope + FAILING_SECONDS_MAX):
                why = dict.fromkeys(sorted(missing), "records are missing: truncated, removed or compressed")
                for partition in unread:
                    why[partition] = log.failures.get(partition, f"it was not read to its end in {SECONDS_MAX} s")
                found.gaps = list(_unread(why))
                break
    finally:
        log.close()
    if found.undecoded:
        records = humanize_count(found.undecoded, "record")
        found.gaps.append(f"{records} of __transaction_state could not be decoded")
    return found


def _unread(why: Mapping[int, str]) -> Iterator[str]:
    """A sentence for each reason, with the partitions of `__transaction_state` that it holds for."""
    for reason in dict.fromkeys(why.values()):
        numbers = [number for number in why if why[number] == reason]
        which = humanize_names(list(map(str, numbers)), shown_max=PARTITIONS_MAX)
        yield f"partition{'' if len(numbers) == 1 else 's'} {which} of __transaction_state: {reason}"


def _take(record: LogRecord, ledger: Ledger, found: _LogContents, name: str | None) -> None:
    try:
        decoded = decode(record.key, record.value)
    except MalformedRecordError:
        decoded = None
    if decoded is None or isinstance(decoded, UnknownVersion):
        found.undecoded += 1
        return
    found.is_named |= decoded.transactional_id == name
    events = ledger.take(record.partition, decoded, record.written_at_ms)
    found.ended += [transaction for event in events if (transaction := ended_by_coordinator(event)) is not None]


def row(transaction: EndedByCoordinator) -> Row:
    """Returns the documented columns of a timeout; instants and durations are in milliseconds."""
    return {
        "at_ms": transaction.at_ms,
        "transactional_id": transaction.transactional_id,
        "outcome": transaction.outcome.value,
        "duration_ms": None if transaction.duration_ms < 0 else transaction.duration_ms,
        "timeout_ms": transaction.timeout_ms,
        "partitions": list(transaction.partitions),
    }


def table(words: list[Row], nothing: str) -> str:
    """Formats the table with spaces between the partitions, so that they can go on in the next line."""
    spaced = [{**entry, "partitions": entry["partitions"].replace(",", ", ")} for entry in words]
    return for_people(FOR_PEOPLE, spaced, nothing)


def in_words(rows: list[Row]) -> list[Row]:
    """Formats rows for operators."""
    return [
        {
            "at": humanize_instant(entry["at_ms"]),
            "transactional_id": entry["transactional_id"],
            "outcome": entry["outcome"],
            "duration": None if entry["duration_ms"] is None else humanize_duration(entry["duration_ms"]),
            "timeout": humanize_duration(entry["timeout_ms"]),
            "partitions": ",".join(entry["partitions"]),
        }
        for entry in rows
    ]
