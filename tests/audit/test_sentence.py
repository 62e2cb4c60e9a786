"""The lines at the end of an audit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from exporter.audit.job import AuditResult
from exporter.audit.sentence import sentence_of
from exporter.audit.verdicts import AuditVerdict

CLEAN = AuditResult(
    cluster_id="c",
    transactions=Counter({AuditVerdict.AS_DECIDED: 10_412}),
    partitions=61,
    unread={},
    findings=Counter(),
    examples=(),
    waiting=0,
    log_behind=12,
    read_bytes=48_113_204,
)
AUDITED = "audited on 61 partitions (48,113,204 bytes read)"


def test_a_clean_audit_is_one_sentence() -> None:
    """As docs/audit.md has it. That the transaction log goes on is no news."""
    assert list(sentence_of(CLEAN)) == [f"10,412 transactions {AUDITED}: all as decided."]


def test_what_is_unknown_or_unread_is_never_as_decided() -> None:
    transactions = Counter({AuditVerdict.AS_DECIDED: 1, AuditVerdict.UNKNOWN: 2})
    unread = {("payments", 0): "deleted", **{("orders", number): "no leader" for number in range(7)}}

    lines = list(sentence_of(replace(CLEAN, transactions=transactions, partitions=1, unread=unread)))

    assert lines == [
        "3 transactions audited on 1 partition (48,113,204 bytes read): all as decided, but for unknown ones.",
        "2 of them unknown, because evidence is missing: audit_transactions has the reasons.",
        (
            "8 partitions not read: orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more (no leader), "
            "payments-0 (deleted)."
        ),
    ]


def test_what_contradicts_is_named() -> None:
    transactions = Counter({AuditVerdict.TORN: 1, AuditVerdict.AS_DECIDED: 4})
    findings = Counter({AuditVerdict.TORN: 1, AuditVerdict.MARKER_WITHOUT_DECISION: 1})

    lines = list(
        sentence_of(replace(CLEAN, transactions=transactions, findings=findings, examples=("torn on a-0: x",)))
    )

    assert lines == [
        f"5 transactions {AUDITED}: 1 not as decided.",
        "  torn on a-0: x",
        "  and 1 more, in audit_transactions",
        "A marker without a decision is what each `abort` leaves; nothing else should.",
    ]


def test_a_marker_without_a_decision_is_not_all_as_decided() -> None:
    """Every `abort` of an operator leaves one."""
    found = Counter({AuditVerdict.MARKER_WITHOUT_DECISION: 1})

    lines = list(sentence_of(replace(CLEAN, findings=found, examples=("marker_without_decision on a-0: x",))))

    assert lines == [
        f"10,412 transactions {AUDITED}: each new decision was carried out, but 1 finding beside them.",
        "  marker_without_decision on a-0: x",
        "A marker without a decision is what each `abort` leaves; nothing else should.",
    ]


def test_beside_a_finding_an_unknown_decision_is_not_carried_out() -> None:
    found = replace(CLEAN, findings=Counter({AuditVerdict.RECORDS_OUTSIDE: 2}))
    unknown = Counter({AuditVerdict.AS_DECIDED: 1, AuditVerdict.UNKNOWN: 2})

    said = [next(sentence_of(replace(found, transactions=each))) for each in (unknown, Counter[AuditVerdict]())]

    assert said == [
        f"3 transactions {AUDITED}: each new decision was carried out or is unknown, but 2 findings beside them.",
        f"0 transactions {AUDITED}: no new decision is a minute old, but 2 findings beside them.",
    ]


def test_nothing_compared_is_said_so() -> None:
    """Nobody may read it as a clean audit."""
    lines = list(sentence_of(replace(CLEAN, transactions=Counter(), waiting=2_869)))

    assert lines == [
        f"0 transactions {AUDITED}: no new decision is a minute old, so nothing was compared.",
        (
            "2,869 transactions on single partitions: open, or still without a decision "
            "(transaction_log lacks the newest 12 records: `pipeline transaction-log` reads them)."
        ),
    ]


def test_replicas_that_were_not_compared_are_named() -> None:
    copies_unread = {("orders", 0, number): "REPLICA_NOT_AVAILABLE" for number in range(6)}

    lines = list(sentence_of(replace(CLEAN, copies=122, copies_unread=copies_unread)))

    named = ", ".join(f"orders-0 on broker {number}" for number in range(5))
    assert lines == [
        f"10,412 transactions {AUDITED}: all as decided.",
        f"122 replicas compared with their leaders; not compared: {named} and 1 more (REPLICA_NOT_AVAILABLE).",
    ]
