"""The dashboard to open first: suspects with evidence and impact, then trends, then the exporter's own health."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grafana import blocked
from grafana.audit import how_the_logs_were_audited
from grafana.baseline import what_is_unusual
from grafana.blocked import blocked_groups
from grafana.coverage import coverage
from grafana.disk import held_bytes, log_dirs
from grafana.fields import DOUBTFUL, STATE_TEXTS, UNKNOWN, WRONG, Shade, drawn, fixed, texts, verdict_lines
from grafana.firing import alerts
from grafana.health import the_exporter, the_history
from grafana.links import OVERVIEW, from_alert, to_partition
from grafana.owners import CHOSEN_ID, SUSPECTS, with_both, with_group
from grafana.page import Heading, Json, Line, dashboard
from grafana.panels import MINUTES, graph, limit_line, stat
from grafana.protection import clients, features, protection
from grafana.queries import EXPORTER, NONE_READ, NOT_PROVED, PROVED, none_of, once, series, state, with_cluster_id
from grafana.stuck import stuck_producers
from grafana.suspects import of_owner, suspects
from grafana.transaction_log import how_the_log_is_read, what_became_of_transactions
from grafana.variables import of_exporters, of_owners, of_words, topics

NOT_READ: Final = "not read"
OPEN: Final = series("instance:kafka_open_transactions:fresh")
"""The number of open transactions by verdict: every verdict has a value while there is a fresh snapshot."""
IN_TOPIC: Final = 'topic=~"$topic"'
WHOLE_CLUSTER: Final = "In all chosen clusters and all their topics."
BY_SIGNAL: Final = "Not read: no fresh snapshot, or the recording rules are not loaded."


def overview() -> Json:
    return dashboard(
        uid=OVERVIEW,
        title="Kafka transactions: overview",
        description="Hanging and suspect Kafka transactions: present state, unread parts, trends.",
        variables=[*of_exporters(), topics(), *of_owners(), *of_words()],
        lines=[
            *_now(),
            Heading("Trends"),
            *_trends(),
            Heading("Unread and inconclusive, by reason", is_open=False),
            Line(8, [(8, unread_partitions()), (8, inconclusive()), (8, partitions_read())]),
            Heading("Longer than usual (baseline.file)", is_open=False),
            *what_is_unusual(IN_TOPIC),
            Heading("Outcomes of transactions (transaction_log.enabled)", is_open=False),
            *what_became_of_transactions(),
            *how_the_log_is_read(),
            Heading("Audit (pipeline audit, publish.report)", is_open=False),
            *how_the_logs_were_audited(),
            Heading("The exporter", is_open=False),
            *the_exporter(),
            Heading("History (history.directory)", is_open=False),
            *the_history(),
        ],
    )


def _now() -> Iterator[Line]:
    yield Line(4, [(7, state_of_exporters()), (4, hanging()), (4, others()), (5, held_back()), (4, unread())])
    yield Line(
        6,
        [
            (14, blocked_groups(IN_TOPIC, [to_partition()], select=blocked.of_owner)),
            (
                10,
                alerts(
                    "Firing alerts",
                    "Kafka transaction alerts of all chosen clusters; of alerts about a consumer group, the chosen ones.",
                    'group=~"$group|"',
                    links=[from_alert()],
                ),
            ),
        ],
    )
    yield Line(
        9,
        [
            (
                24,
                suspects(
                    "Suspect transactions",
                    "Open transactions that need attention, in the chosen topics, of the chosen transactional ids, "
                    "blocking the chosen groups, up to publish.suspects_limit.",
                    IN_TOPIC,
                    [to_partition()],
                    select=of_owner,
                ),
            )
        ],
    )
    yield Line(4, [(14, stuck_producers()), (10, coverage())])


def _trends() -> Iterator[Line]:
    yield Line(9, [(12, open_by_verdict()), (12, held_back_by_partition())])
    yield Line(9, [(8, oldest_suspects()), (8, idle_longest()), (8, late())])
    yield Line(7, [(12, held_bytes(IN_TOPIC, read=OPEN)), (12, log_dirs())])
    yield Line(8, [(8, protection()), (8, features()), (8, clients())])


def state_of_exporters() -> Json:
    return stat(
        "State",
        "The worst state of each exporter now. Green: a fresh snapshot has read everything and has no suspect. "
        "Purple: unknown. Needs no recording rules.",
        state(),
        unit="none",
        no_value="no exporter known",
        mappings=[texts(STATE_TEXTS)],
        legend="{{cluster}} {{instance}}",
    )


def hanging() -> Json:
    return stat(
        "Hanging transactions",
        f"Open transactions whose marker no coordinator will ever write. {WHOLE_CLUSTER} {BY_SIGNAL}",
        f"sum({once(series('instance:kafka_open_transactions:fresh', PROVED))})",
        unit="locale",
        no_value=NOT_READ,
        steps={1: WRONG},
    )


def others() -> Json:
    return stat(
        "Other suspects",
        "Open transactions that need attention and are not proved hanging: diverged, stuck, overdue or inconclusive. "
        f"{WHOLE_CLUSTER} {BY_SIGNAL}",
        f"sum({once(series('instance:kafka_open_transactions:fresh', NOT_PROVED))})",
        unit="locale",
        no_value=NOT_READ,
        steps={1: DOUBTFUL},
    )


def held_back() -> Json:
    behind = series("partition:kafka_partition_last_stable_offset_lag:suspect")
    read = series("instance:kafka_open_transactions:fresh")
    return stat(
        "Offsets held back by suspects",
        f"Records that read_committed consumers cannot see, on partitions with a suspect. {WHOLE_CLUSTER} {BY_SIGNAL}",
        f"sum({once(behind)}) or 0 * sum({read})",
        unit="locale",
        no_value=NOT_READ,
        steps={1: DOUBTFUL},
    )


def unread() -> Json:
    partitions = series("instance:kafka_transaction_exporter_partitions:fresh", 'answer!~"read|excluded"')
    return stat(
        "Unread partitions",
        f"Partitions that could not be read; the table below has the reasons. {WHOLE_CLUSTER} {BY_SIGNAL}",
        f"sum({once(partitions)})",
        unit="locale",
        no_value="unknown",
        steps={1: UNKNOWN},
    )


def open_by_verdict() -> Json:
    by_verdict = f"sum by (verdict) ({once(OPEN)}) > 0"
    return graph(
        "Open transactions by verdict",
        "Red is proved hanging, orange and yellow need attention, purple is inconclusive, blue is normal. A verdict "
        f"without a transaction has no line. {WHOLE_CLUSTER} {BY_SIGNAL}",
        {"{{verdict}}": by_verdict},
        nothing={NONE_READ: none_of(by_verdict, read=OPEN)},
        shade=Shade.UNKNOWN,
        unit="short",
        no_value=NOT_READ,
        overrides=verdict_lines(),
        stacked=True,
        calcs=("lastNotNull",),
        beside=True,
    )


def held_back_by_partition() -> Json:
    lag = with_both("partition:kafka_partition_last_stable_offset_lag:suspect", IN_TOPIC)
    worst = f"topk(10, max by ({EXPORTER}, topic, partition) ({lag}))"
    return graph(
        "Offsets held back, worst ten partitions with a suspect",
        f"High watermark minus last stable offset: it grows while producers write and consumers are blocked. Of the "
        f"chosen groups and transactional ids. {BY_SIGNAL}",
        {"{{cluster}} {{topic}}-{{partition}}": worst},
        nothing={NONE_READ: none_of(worst, read=OPEN)},
        shade=Shade.ATTENTION,
        unit="short",
        no_value=NOT_READ,
        beside=True,
    )


def oldest_suspects() -> Json:
    age = with_group(f"transaction:{SUSPECTS}:age", f"{IN_TOPIC}, {CHOSEN_ID}")
    worst = f"topk(10, max by ({EXPORTER}, topic, partition) ({age})) / 60"
    limit = series("kafka_transaction_max_timeout_seconds")
    return graph(
        "Age of suspects, worst ten partitions",
        "Time since the start of the oldest suspect on the partition. Of the chosen groups and transactional ids. "
        "The dashed line is transaction.max.timeout.ms. "
        f"{BY_SIGNAL}",
        {
            "{{cluster}} {{topic}}-{{partition}}": worst,
            "transaction.max.timeout.ms": f"max({limit}) / 60",
        },
        nothing={NONE_READ: none_of(worst, read=OPEN)},
        shade=Shade.ATTENTION,
        unit=MINUTES,
        no_value=NOT_READ,
        overrides=[limit_line()],
    )


def idle_longest() -> Json:
    idle = series("kafka_partition_max_transaction_idle_seconds", IN_TOPIC)
    worst = f"topk(10, max by ({EXPORTER}, topic, partition) ({idle})) / 60"
    return graph(
        "Longest idle transactions, worst ten partitions",
        "Time since the timestamp of the last write of any open transaction. Clients set it: replays of old events look "
        "very old. Only partitions with an open transaction whose producer is known.",
        {"{{cluster}} {{topic}}-{{partition}}": worst},
        nothing={
            NONE_READ: none_of(
                series("kafka_partition_open_transactions", IN_TOPIC), read=series("kafka_open_transactions")
            )
        },
        shade=Shade.NEUTRAL,
        unit=MINUTES,
        no_value=NOT_READ,
    )


def late() -> Json:
    return graph(
        "Late transactions",
        "Open for longer than transaction.max.timeout.ms plus padding, and the number of their partitions. "
        f"{WHOLE_CLUSTER}",
        {
            "transactions": f"sum({once(with_cluster_id(series('kafka_late_transactions')))})",
            "partitions": f"sum({once(with_cluster_id(series('kafka_partitions_with_late_transactions')))})",
        },
        shade=Shade.ATTENTION,
        unit="short",
        no_value=NOT_READ,
        overrides=[
            drawn("^transactions$", {"color": fixed("orange")}),
            drawn("^partitions$", {"color": fixed("yellow")}),
        ],
    )


def unread_partitions() -> Json:
    reasons = f"sum by (reason) ({once(with_cluster_id(series('kafka_transaction_exporter_unread_partitions')))})"
    return graph(
        "Unread partitions, by reason",
        f"Unread partitions are unknown, not healthy. Only reasons that occur have a line. {WHOLE_CLUSTER}",
        {"{{reason}}": reasons},
        nothing={"no unread partition": none_of(reasons, read=series("kafka_transaction_exporter_partitions"))},
        shade=Shade.UNKNOWN,
        unit="short",
        no_value="No snapshot",
        stacked=True,
    )


def inconclusive() -> Json:
    inconclusive = series("instance:kafka_transaction_exporter_inconclusive_transactions:fresh")
    reasons = f"sum by (reason) ({once(inconclusive)}) > 0"
    return graph(
        "Inconclusive transactions, by reason",
        f"Open transactions for which part of the proof is missing. {WHOLE_CLUSTER} {BY_SIGNAL}",
        {"{{reason}}": reasons},
        nothing={NONE_READ: none_of(reasons, read=OPEN)},
        shade=Shade.UNKNOWN,
        unit="short",
        no_value=NOT_READ,
        stacked=True,
    )


def partitions_read() -> Json:
    partitions = once(with_cluster_id(series("kafka_transaction_exporter_partitions")))
    return graph(
        "Partitions by result",
        "Read, known by their offsets alone for lack of READ, not authorized, unavailable, or excluded by scan.topics.",
        {"{{answer}}": f"sum by (answer) ({partitions})"},
        shade=Shade.UNKNOWN,
        unit="short",
        no_value=NOT_READ,
        stacked=True,
        overrides=[
            drawn("^read$", {"color": fixed("blue")}),
            drawn("^by_offsets$", {"color": fixed("light-blue")}),
            drawn("^unauthorized$", {"color": fixed("dark-purple")}),
            drawn("^unavailable$", {"color": fixed("purple")}),
            drawn("^excluded$", {"color": fixed("text")}),
        ],
    )
