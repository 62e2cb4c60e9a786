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
    findings=0,
    read_bytes=48_113_204,
)


def test_a_clean_audit_is_one_sentence() -> None:
    """As docs/audit.md has it."""
    assert list(sentence_of(CLEAN)) == [
        "10,412 transactions audited on 61 partitions (48,113,204 bytes read): all as decided."
    ]


def test_what_is_unknown_or_unread_is_never_as_decided() -> None:
    transactions = Counter({AuditVerdict.AS_DECIDED: 1, AuditVerdict.UNKNOWN: 2})
    unread = {("orders", number): "it has no leader" for number in range(7)}

    lines = list(sentence_of(replace(CLEAN, transactions=transactions, partitions=1, unread=unread)))

    assert lines == [
        "3 transactions audited on 1 partition (48,113,204 bytes read): all as decided, but for unknown ones.",
        "2 of them unknown, because evidence is missing: audit_transactions has the reasons.",
        (
            "7 partitions not read: orders-0 (it has no leader), orders-1 (it has no leader), orders-2 (it has no leader), "
            "orders-3 (it has no leader), orders-4 (it has no leader) and 2 more."
        ),
    ]


def test_what_contradicts_comes_first() -> None:
    transactions = Counter({AuditVerdict.TORN: 1, AuditVerdict.AS_DECIDED: 4})

    lines = list(sentence_of(replace(CLEAN, transactions=transactions, findings=2)))

    assert lines == [
        (
            "5 transactions audited on 61 partitions (48,113,204 bytes read): 1 is not as decided; "
            "2 findings in audit_transactions."
        ),
        "  torn: 1",
    ]
