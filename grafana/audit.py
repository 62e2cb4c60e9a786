"""Graphs of the audit of exactly-once: its transactions and findings of the last day, and its age."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grafana.fields import Shade, drawn, fixed
from grafana.page import Json, Line
from grafana.panels import HOURS, graph
from grafana.queries import EXPORTER, NONE_READ, none_of, once, series, with_cluster_id

NO_AUDIT: Final = "No audit is known"
NONE_OF_LAST_DAY: Final = "No audit of the last day"
EACH_HAS_A_ROW: Final = "docs/audit.md says what each verdict means."


def how_the_logs_were_audited() -> Iterator[Line]:
    yield Line(8, [(8, transactions()), (8, findings()), (8, age())])


def transactions() -> Json:
    audited = series("kafka_transactions_audited")
    by_verdict = f"sum by (verdict) ({once(with_cluster_id(audited))}) > 0"
    return graph(
        "Audited transactions of the last day, by verdict",
        "Decided transactions that pipeline audit has compared with the logs. Blue is as decided, purple is unknown, "
        f"because evidence is missing, orange is not as decided. {EACH_HAS_A_ROW}",
        {"{{verdict}}": by_verdict},
        nothing={NONE_READ: none_of(by_verdict, read=audited)},
        shade=Shade.ATTENTION,
        unit="short",
        no_value=NONE_OF_LAST_DAY,
        calcs=("lastNotNull",),
        overrides=[
            drawn("^as_decided$", {"color": fixed("blue")}),
            drawn("^unknown$", {"color": fixed("purple")}),
        ],
    )


def findings() -> Json:
    found = series("instance:kafka_transaction_audit_findings:fresh")
    by_verdict = f"sum by (verdict) ({once(found)}) > 0"
    return graph(
        "Findings of the audits of the last day, by verdict",
        "Accusations on single partitions, of older transactions too; each has a row in audit_transactions. "
        f"{EACH_HAS_A_ROW} No line: no audit of the last day, no fresh snapshot, or no recording rules.",
        {"{{verdict}}": by_verdict},
        nothing={NONE_READ: none_of(by_verdict, read=found)},
        shade=Shade.ATTENTION,
        unit="short",
        no_value="not read",
        calcs=("lastNotNull",),
    )


def age() -> Json:
    audited_at = series("kafka_transaction_exporter_audit_timestamp_seconds")
    return graph(
        "Age of the audit",
        "Since the newest audit asked for the ends of the logs. What was written later is not audited.",
        {"{{cluster}} {{instance}}": f"(time() - max by ({EXPORTER}) ({audited_at})) / 3600"},
        shade=Shade.NEUTRAL,
        unit=HOURS,
        no_value=NO_AUDIT,
    )
