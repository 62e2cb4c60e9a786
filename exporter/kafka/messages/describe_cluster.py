"""DescribeCluster (API key 60): the request for the operations that this login may do on the cluster, and its response."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.admin.acl import ACLOperation

_WRITES_MARKERS: Final = frozenset({ACLOperation.ALTER, ACLOperation.CLUSTER_ACTION})
"""One of them is enough; before Kafka 3.8 it is CLUSTER_ACTION."""


def request() -> Any:
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


def lacks_right_to_write_markers(answer: Any) -> bool:
    """True only if the response lists this login's operations without those: without DESCRIBE it lists none."""
    operations = frozenset(answer.authorized_operations or ())
    return ACLOperation.DESCRIBE in operations and operations.isdisjoint(_WRITES_MARKERS)
