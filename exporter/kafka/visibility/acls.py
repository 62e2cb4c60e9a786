"""Reads the ACLs that refuse an operation that the exporter needs."""

from __future__ import annotations

from typing import Any

from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.errors import BrokerFault, ErrorCode, error_name
from exporter.kafka.messages import describe_acls
from exporter.snapshot import Acls

NOT_LISTED = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION})
"""Responses of an authorizer that cannot list its ACLs: Open Policy Agent's, Keycloak's, custom ones."""
ACLS_NOT_LISTED = "the cluster's authorizer does not list ACLs, so whether it hides any is unknown"


async def read_acls(client: ClusterClient, broker: int) -> Acls:
    """The rules that deny an operation that the exporter needs, to any principal. Never raises BrokerFault."""
    try:
        return await client.request(broker, "DescribeAcls", describe_acls.request(None), _acls)
    except BrokerFault as fault:
        return Acls(unread=str(fault))


def _acls(answer: Any) -> Acls:
    error = describe_acls.error_of(answer)
    if error == ErrorCode.SECURITY_DISABLED:
        return Acls(has_authorizer=False)
    if error in NOT_LISTED:
        return Acls(unread=ACLS_NOT_LISTED)
    if error != ErrorCode.NONE:
        return Acls(unread=error_name(error))
    return Acls(denied=describe_acls.decode_denials(answer))
