"""`explain`: says why a transaction hangs, or hung: time line, cause with its evidence, what prevents the next one."""

from __future__ import annotations

import argparse
from dataclasses import replace

from exporter.commands.context import Context
from exporter.commands.examine import Examiner, policy
from exporter.commands.incident import incident_named
from exporter.commands.lines import say
from exporter.commands.report import complain, complain_of_gaps, why_missing, why_unknown, with_collector
from exporter.commands.rows import as_json
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.daemon.kept_file import KeptFileError
from exporter.evaluation.evaluate import worst_first
from exporter.evaluation.humanize import printable
from exporter.evaluation.verdicts import Evaluation, TransactionRow
from exporter.explain.document import Explanation, document, explain, markdown, text
from exporter.explain.read import TransactionToExplain, read_facts
from exporter.files import MEGABYTE
from exporter.incidents.incident import Suspect
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.first_records import first_records
from exporter.kafka.collect.log_reader import LogBudget
from exporter.kafka.collect.scope import Scope
from exporter.kafka.errors import BrokerFault, ErrorCode
from exporter.kafka.lookups import KafkaRequestError


def run(context: Context, settings: Settings) -> int:
    """Prints the explanation; returns the exit status."""
    options = context.options
    if (options.incident is None) == (options.topic is None):
        return complain(
            "give --topic, --partition and --start-offset of a transaction, or --incident with the id of an incident",
            ExitStatus.WRONG_USAGE,
        )
    if options.incident is not None and (options.partition is not None or options.start_offset is not None):
        return complain(
            "--incident names transactions: leave out --partition and --start-offset", ExitStatus.WRONG_USAGE
        )
    if options.topic is not None and (options.partition is None or options.start_offset is None):
        return complain("--topic needs --partition and --start-offset", ExitStatus.WRONG_USAGE)
    suspects: tuple[Suspect, ...] = ()
    if options.incident is not None:
        try:
            incident = incident_named(context, settings, options.incident)
        except KeptFileError as error:
            return complain(str(error))
        if incident.is_of_coordinators:
            return complain(
                f"incident {incident.id} is of producers that cannot start, and nothing needs to be open: its evidence has "
                f"what is known (ktx incident {incident.id})"
                + ("" if incident.is_over else ", and why --producer-id N says what ends it")
            )
        suspects = incident.suspects
    return with_collector(settings, lambda collector: _explain(context, settings, collector, suspects))


def _explain(context: Context, settings: Settings, collector: Collector, suspects: tuple[Suspect, ...]) -> int:
    options = context.options
    connection, unexplained = settings.kafka.connection_of_tools, list[str]()
    explanations = []
    for suspect in suspects:
        try:
            wanted = _of_suspect(settings, collector, suspect)
            explanations.append(_explained(options, collector, wanted, connection))
        except (BrokerFault, KafkaRequestError) as error:  # the others can be explained
            unexplained.append(f"{suspect.name} is not explained: {error}")
    if not suspects:
        wanted = _open_at(settings, collector, options.topic, options.partition, options.start_offset)
        explanations = [_explained(options, collector, wanted, connection)]
    if options.format == "json":
        documents = [document(one) for one in explanations]
        print(as_json(documents if suspects else documents[0]))
    elif options.format == "markdown":
        print("\n".join(map(markdown, explanations)))
    else:
        say("\n\n".join("\n".join(map(printable, text(one))) for one in explanations))
    missing = dict.fromkeys([*unexplained, *(gap for one in explanations for gap in one.gaps)])
    return ExitStatus.INCOMPLETE if complain_of_gaps(missing) else ExitStatus.ANSWERED


def _open_at(
    settings: Settings, collector: Collector, topic: str, partition: int, start_offset: int
) -> TransactionToExplain:
    """Raises KafkaRequestError if no transaction is open there."""
    evaluation = _judged(settings, collector, topic, partition)
    row = _row_at(evaluation, topic, partition, start_offset)
    if row is None and not len(evaluation.snapshot.partitions):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
        raise KafkaRequestError(code, why_missing(collector, topic, partition))
    if row is None:
        offsets = ", ".join(str(other.start_offset) for other in worst_first(evaluation))
        others = f"those that are open start at {offsets}" if offsets else "none is open on this partition"
        raise KafkaRequestError(
            "NO_TRANSACTION",
            f"no transaction is open on {topic}-{partition} at start offset {start_offset}; {others}; "
            "for one that has ended, name its incident, if it was a suspect: --incident",
        )
    return TransactionToExplain(opened=row.key, verdict=row.verdict, transactional_id=row.transactional_id)


def _of_suspect(settings: Settings, collector: Collector, suspect: Suspect) -> TransactionToExplain:
    """Raises KafkaRequestError if its partition could not be read."""
    row = None
    if suspect.ended_at_ms is None:
        evaluation = _judged(settings, collector, suspect.topic, suspect.partition)
        row = _row_at(evaluation, suspect.topic, suspect.partition, suspect.start_offset)
    return TransactionToExplain.of(suspect, None if row is None else row.verdict)


def _row_at(evaluation: Evaluation, topic: str, partition: int, start_offset: int) -> TransactionRow | None:
    """The transaction from this offset on; None if it is not open. Raises KafkaRequestError if that is not known."""
    row = next((row for row in worst_first(evaluation) if row.start_offset == start_offset), None)
    if row is None and (unknown := why_unknown(evaluation, topic, partition)):
        raise KafkaRequestError("UNREAD", unknown)
    return row


def _judged(settings: Settings, collector: Collector, topic: str, partition: int) -> Evaluation:
    judged: Evaluation = Examiner(collector, policy(settings), search_logs=False).judge(
        Scope(topic=topic, partition=partition)
    )
    return judged


def _headers(collector: Collector, wanted: TransactionToExplain) -> tuple[str, ...] | None:
    (record,) = collector.query(lambda client: first_records(client, [wanted.opened]))
    return None if record.unread else record.headers


def _explained(
    options: argparse.Namespace, collector: Collector, wanted: TransactionToExplain, connection: str
) -> Explanation:
    """Raises BrokerFault and ClusterUnavailableError."""
    limit = options.max_megabytes * MEGABYTE
    budget = LogBudget(bytes_left=limit)
    facts = collector.query(lambda client: read_facts(client, wanted, budget), deadline_s=options.max_seconds)
    if options.show_records:
        facts = replace(facts, headers=_headers(collector, wanted))
    return explain(facts, bytes_read=limit - budget.bytes_left, bytes_limit=limit, connection=connection)
