"""`why`: says why a group, a topic, a transactional id or a producer stands still, or that no transaction is the cause."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from exporter import PROGRAM
from exporter.commands.context import Context
from exporter.commands.examine import Examiner, policy
from exporter.commands.group_position import GroupPosition, Stand
from exporter.commands.lines import CLIENT_FILE, JAVA_FILE, NO_COMMAND, connection_of, fit_terminal, to_paste
from exporter.commands.names import suggestion
from exporter.commands.report import complain, complain_of_gaps, why_missing, with_collector
from exporter.commands.rows import as_json
from exporter.commands.standstill import (
    NAMES_MAX,
    NO_SHARED_OFFSET,
    PENDING_UNSEEN,
    Answer,
    Hold,
    about_group,
    about_producer,
    about_topic,
    holding,
    home_of,
    lasting,
    names_of,
)
from exporter.commands.standstill_in_words import in_words
from exporter.commands.status import ExitStatus
from exporter.config.java_properties import serves_java
from exporter.config.kafka_section import KafkaSettings
from exporter.config.settings import Settings
from exporter.evaluation.document import stuck_transaction
from exporter.evaluation.field_types import Output
from exporter.evaluation.fields import project
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import humanize_names
from exporter.evaluation.stuck import stuck_transactions
from exporter.evaluation.verdicts import Evaluation, Verdict
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.collector import Collector
from exporter.kafka.collect.consumer_groups import pending_groups, share_positions
from exporter.kafka.collect.next_records import (
    PIECES_MAX,
    PIECES_OF_A_COMMAND,
    POSITIONS_OF_A_COMMAND,
    with_next_offsets,
)
from exporter.kafka.collect.scope import EVERYTHING, Scope
from exporter.kafka.errors import BrokerFault, ErrorCode, FaultReason
from exporter.kafka.lookups import KafkaRequestError, altered_by_alert, committed_by, describe_id, list_all
from exporter.kafka.messages import list_groups
from exporter.kafka.offsets import latest_offsets
from exporter.kafka.visibility.topics import may_hide_topics
from exporter.snapshot import COMPLETING_STATES, CoordinatorTransaction, GroupOffset, TransactionState


def run(context: Context, settings: Settings) -> int:
    """Prints the answer; returns the exit status."""
    options = context.options
    if options.partition is not None and options.topic is None:
        return complain("--partition needs --topic", ExitStatus.WRONG_USAGE)
    return with_collector(settings, lambda collector: _explain(options, settings, collector))


def _explain(options: argparse.Namespace, settings: Settings, collector: Collector) -> int:
    examiner = Examiner(collector, policy(settings), search_logs=False)
    evaluation, answer = _answer(options, collector, examiner)
    answer = replace(
        answer,
        connection=connection_of(options),
        connection_of_tools=_connection_of_tools(options, settings.watched[0].settings.kafka),
        blocked_after_ms=evaluation.policy.blocked_after_ms,
    )
    if options.format == "json":
        print(as_json(document(evaluation, answer)))
    else:
        print(fit_terminal(in_words(answer)))
    if answer.unknown or answer.is_unproved:
        complain_of_gaps(gaps(evaluation.snapshot, of=answer.names))
        return ExitStatus.INCOMPLETE
    return ExitStatus.HANGING if options.exit_code and answer.is_held else ExitStatus.ANSWERED


def _connection_of_tools(options: argparse.Namespace, kafka: KafkaSettings) -> tuple[str, ...]:
    """Options by which Kafka's own tools find the cluster, with this login where a file has it as Java's clients do."""
    file: str | None = vars(options).get("command_config")
    if file is None:
        return kafka.options_of_tools(CLIENT_FILE)
    if _serves_java(Path(file), has_login=kafka.sasl is not None):
        return ("--bootstrap-server", kafka.bootstrap, "--command-config", file)
    return kafka.options_of_tools(JAVA_FILE if Path(file).name == CLIENT_FILE else CLIENT_FILE)


def _serves_java(file: Path, *, has_login: bool) -> bool:
    """False for a pipe, which has been read already."""
    return file.is_file() and serves_java(file.read_text(encoding="utf-8"), has_login=has_login)


def _answer(options: argparse.Namespace, collector: Collector, examiner: Examiner) -> tuple[Evaluation, Answer]:
    if options.group is not None:
        return _second_look(examiner, EVERYTHING, lambda evaluation: _about_group(collector, evaluation, options.group))
    if options.topic is not None:
        scope = Scope(topic=options.topic, partition=options.partition)
        found = _second_look(examiner, scope, lambda looked: about_topic(looked, options.topic, options.partition))
        if not found[1].partitions:
            sentence = why_missing(collector, options.topic, options.partition)
            raise KafkaRequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, sentence)
        return found
    if options.producer_id is not None:
        return _of_producer_id(examiner, collector, options.producer_id)
    transaction = collector.query(lambda client: describe_id(client, options.transactional_id))
    subject = f"transactional id {options.transactional_id!r}"
    evaluation, answer = _of_producer(examiner, collector, subject, transaction.producer_id)
    answer = _with_state(answer, transaction)
    if transaction.has_hidden_partitions and not answer.holds:
        hidden = (
            "its coordinator has it Ongoing on partitions that this login does not see (needs DESCRIBE on their topics)"
        )
        answer = replace(answer, unknown=(*answer.unknown, hidden))
    elif not answer.holds and answer.unknown and transaction.state is TransactionState.ONGOING:
        answer = replace(answer, unknown=(*answer.unknown, _may_be_its_own(transaction, connection_of(options))))
    return evaluation, answer


def _of_producer(examiner: Examiner, collector: Collector, subject: str, producer_id: int) -> tuple[Evaluation, Answer]:
    evaluation, answer = _second_look(
        examiner,
        EVERYTHING,
        lambda evaluation: about_producer(evaluation, subject, [producer_id]),
        frozenset({producer_id}),
    )
    return evaluation, replace(answer, hides_topics=collector.query(may_hide_topics))


def _second_look(
    examiner: Examiner,
    scope: Scope,
    answer_of: Callable[[Evaluation], Answer],
    producer_ids: AbstractSet[int] = frozenset(),
) -> tuple[Evaluation, Answer]:
    """Looks again where a coordinator is completing the transaction of a hold, or of these producers, or a group has moved.

    Most are complete a second later; the others are stuck, as far as two looks can say. Only a cycle over everything
    compares the markers of a transaction.
    """
    first = examiner.look(scope)
    answer = answer_of(first)
    if scope != EVERYTHING and _completing(answer):
        return _second_look(examiner, EVERYTHING, answer_of, producer_ids)
    long_completing = {each.transaction.producer_id for each in first.snapshot.completing.lasting}
    if not answer.has_moved and not long_completing & (producer_ids | _completing(answer)):
        return first, answer
    evaluation = examiner.look_again(scope)
    answer = answer_of(evaluation)
    wanted = producer_ids | _completing(answer)
    stuck = stuck_transactions(evaluation.snapshot, first.memory, replace(evaluation.policy, stuck_after_ms=-1))
    return evaluation, replace(answer, stuck=tuple(each for each in stuck if each.producer_id in wanted))


def _completing(answer: Answer) -> AbstractSet[int]:
    """The producers of its holds whose transactions complete."""
    return {hold.row.producer_id for hold in answer.holds if hold.row.verdict is Verdict.COMPLETING}


def _at_coordinator(transaction: CoordinatorTransaction) -> str:
    """Says what its coordinator has where nothing is open."""
    at = f"Its coordinator, broker {transaction.coordinator}, has it {transaction.state.value}"
    if transaction.state in COMPLETING_STATES:
        return f"{at}: a producer with this id gets CONCURRENT_TRANSACTIONS until that ends."
    epoch = transaction.producer_epoch
    return f"{at} at epoch {epoch} of producer {transaction.producer_id}: nothing of an earlier producer id was looked for."


def _with_state(answer: Answer, transaction: CoordinatorTransaction) -> Answer:
    """The answer with what its coordinator has, where nothing of the producer is open."""
    if answer.holds:
        return answer
    answer = replace(answer, aside=_at_coordinator(transaction))
    if transaction.state not in COMPLETING_STATES or answer.stuck:
        return answer
    return replace(answer, unknown=(*answer.unknown, _COMPLETES.format(transaction.state.value)))


_COMPLETES: Final = (
    "its coordinator has it {}; whether that ends: run this again in a minute, and if it is the same, ask the operators "
    "of Kafka (needs DESCRIBE on __transaction_state)"
)


def _may_be_its_own(transaction: CoordinatorTransaction, connection: Sequence[str]) -> str:
    """Says what its coordinator has, for a login that does not see whose the open transactions are."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(transaction.partitions or ())]
    fence = ["force-terminate", "--transactional-id", transaction.transactional_id, "--dry-run", *connection]
    command = to_paste(PROGRAM, *fence)
    end = command if command == NO_COMMAND else f"{command} shows its end"
    return (
        f"its coordinator has it {transaction.state.value} with {humanize_names(names, shown_max=NAMES_MAX)}, and {end}"
    )


def _of_producer_id(examiner: Examiner, collector: Collector, producer_id: int) -> tuple[Evaluation, Answer]:
    """The answer, with what its coordinator has where nothing is open."""
    evaluation, answer = _of_producer(examiner, collector, f"producer id {producer_id}", producer_id)
    if answer.holds or answer.stuck:
        return evaluation, answer
    listed, _ = collector.query(lambda client: list_all(client, ()))
    ids = [each.transactional_id for each in listed if each.producer_id == producer_id]
    if not ids:
        return evaluation, answer
    transaction = collector.query(lambda client: describe_id(client, ids[0]))
    answer = _with_state(answer, transaction)
    return evaluation, replace(answer, aside=f"Its transactional id is {ids[0]!r}. {answer.aside}")


async def _is_share_group(client: ClusterClient, coordinator: int, group: str) -> bool:
    """Looks in the coordinator's list, as it has no offset of the group. Raises KafkaRequestError if it is not there."""
    code, listed = await client.request(coordinator, "ListGroups", list_groups.request(), list_groups.decode)
    names = [name for name, _ in listed]
    if code == ErrorCode.NONE and group not in names:
        raise KafkaRequestError(
            ErrorCode.GROUP_ID_NOT_FOUND.name,
            f"there is no group {group!r}: its coordinator, broker {coordinator}, has none of this name"
            f"{altered_by_alert(group)}{suggestion(group, names)}",
        )
    return (group, list_groups.SHARE) in listed


def _about_group(collector: Collector, evaluation: Evaluation, group: str) -> Answer:
    """Reads the positions of the group, and whether one of its offsets is pending."""

    async def question(client: ClusterClient) -> Answer:
        coordinator, positions = await committed_by(client, group)
        unknown: Sequence[str] = ()
        if not positions:  # a share group commits none
            is_shared = await _is_share_group(client, coordinator, group)
            try:
                shared, unknown = await share_positions(client, coordinator, [group], None)
                positions = {(offset.topic, offset.partition): offset.offset for offset in shared}
                unknown = unknown or ([NO_SHARED_OFFSET] if is_shared and not positions else [])
            except BrokerFault as fault:
                if fault.reason is not FaultReason.UNSUPPORTED_API:
                    raise
        rows = holding(evaluation)
        home = home_of(evaluation, group)
        is_home_held, hides_offsets = home in rows, home[1] < 0
        names = names_of(evaluation) if is_home_held else tuple(positions)
        pending = await pending_groups(client, coordinator, [group] if is_home_held or hides_offsets else [], names)
        if pending and hides_offsets:
            unknown = (*unknown, PENDING_UNSEEN)
        topology = await client.topology(tuple({topic for topic, _ in positions}))
        ends = await latest_offsets(client, {partition: topology.leader_of(*partition)[0] for partition in positions})
        long_held = lasting(rows, evaluation.policy)
        next_offsets = {}
        for wanted, pieces_max, is_all_stable in (
            (long_held, PIECES_OF_A_COMMAND, False),
            (rows.keys() - long_held, PIECES_MAX, False),
            (positions.keys() - rows.keys(), PIECES_MAX, True),
        ):
            offsets = [
                GroupOffset(group=group, topic=topic, partition=number, offset=positions[topic, number])
                for topic, number in sorted(positions.keys() & wanted)
            ]
            known, _ = await with_next_offsets(
                client,
                topology,
                offsets,
                ends,
                positions_max=POSITIONS_OF_A_COMMAND,
                pieces_max=pieces_max,
                is_all_stable=is_all_stable,
            )
            for each in known:
                next_offsets[each.topic, each.partition] = each.next_offset
        at = {
            partition: GroupPosition(
                committed=committed,
                last_stable_offset=ends[partition][0],
                high_watermark=ends[partition][1],
                next_offset=next_offsets.get(partition),
            )
            for partition, committed in sorted(positions.items())
        }
        return about_group(
            evaluation,
            group,
            at,
            is_pending=bool(pending),
            hides_topics=await may_hide_topics(client),
            hides_offsets=hides_offsets,
            unread_positions=unknown,
        )

    return collector.query(question)


def document(evaluation: Evaluation, answer: Answer) -> dict[str, Any]:
    """docs/schema/why.schema.json."""
    return {
        "cluster_id": evaluation.snapshot.cluster_id,
        "taken_at_ms": evaluation.snapshot.taken_at_ms,
        "subject": answer.subject,
        "is_held": answer.is_held,
        "partitions": answer.partitions,
        "lag": answer.lag,
        "unknown": list(answer.unknown),
        "hides_topics": answer.hides_topics,
        "holds": [_hold(answer, hold) for hold in answer.holds if hold.stand is Stand.AT],
        "later": [
            {"stands": hold.stand.value, **_hold(answer, hold)} for hold in answer.holds if hold.stand is not Stand.AT
        ],
        "stuck": [stuck_transaction(each) for each in answer.stuck],
        "text": in_words(answer),
    }


def _hold(answer: Answer, hold: Hold) -> dict[str, Any]:
    return {
        "committed_offset": None if hold.position is None else hold.position.committed,
        "waiting_offsets": None if hold.position is None else hold.position.lag,
        "is_young": answer.is_young(hold.row),
        "is_first": hold.first is None,
        "behind": [project(row, Output.JSON) for row in hold.behind],
        "transaction": project(hold.row, Output.JSON),
    }
