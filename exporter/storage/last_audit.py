"""The newest audit of a cluster: the small file that it writes beside its tables, and that the exporter reads.

{"format": "kafka-transaction-exporter audit", "cluster_id": "...", "audited_at_ms": 0, "transactions": {"torn": 0, ...},
 "findings": {"torn": 0, ...}, "partitions": 0, "partitions_unread": 0}
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

FORMAT: Final = "kafka-transaction-exporter audit"
BYTES_MAX: Final = 100_000
VERDICTS_MAX: Final = 50
"""Each verdict is a series."""
DAY_MS: Final = 24 * 60 * 60 * 1000
"""Span of its counts: after it they say nothing of the present."""
_VERDICT: Final = re.compile(r"[a-z_]{1,50}")
_OTHER: Final = "it is not the file of an audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAudit:
    cluster_id: str
    audited_at_ms: int
    """Instant at which it asked for the ends of the logs."""
    transactions: Mapping[str, int]
    """Decided transactions by their worst verdict, of all runs in the day up to this one."""
    findings: Mapping[str, int]
    """Findings on single partitions by verdict, of the same runs."""
    partitions: int
    """Partitions that this run has audited."""
    partitions_unread: int


def file_name(cluster_id: str) -> str:
    """Each cluster has a file of its own, so that two audits at once do not replace each other's."""
    return f"last_audit-{urllib.parse.quote(cluster_id, safe='')}.json"


def document(audit: LastAudit) -> str:
    return json.dumps({"format": FORMAT, **asdict(audit)}, indent=1)


def parse(text: str) -> LastAudit:
    """Raises ValueError, with a sentence, if the text is not such a file."""
    try:
        content = json.loads(text)
        audit = LastAudit(
            cluster_id=str(content["cluster_id"]),
            audited_at_ms=int(content["audited_at_ms"]),
            transactions=_by_verdict(content["transactions"]),
            findings=_by_verdict(content["findings"]),
            partitions=int(content["partitions"]),
            partitions_unread=int(content["partitions_unread"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise ValueError(_OTHER) from None
    if content.get("format") != FORMAT:
        raise ValueError(_OTHER)
    return audit


def _by_verdict(counts: Mapping[str, Any]) -> dict[str, int]:
    if len(counts) > VERDICTS_MAX or not all(map(_VERDICT.fullmatch, counts)):
        raise ValueError(_OTHER)
    return {verdict: int(count) for verdict, count in counts.items()}
