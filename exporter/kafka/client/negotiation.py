"""Chooses the version of a request from the versions that the broker of a connection offers."""

from __future__ import annotations

from typing import Any

from exporter.kafka.errors import BrokerFault, FaultReason
from exporter.kafka.messages.versions import METADATA, Api, api_of

_SINCE = dict.fromkeys(("Metadata", "ListOffsets", "DescribeProducers"), "2.8") | {
    **dict.fromkeys(("ListTransactions", "DescribeTransactions"), "3.0"),
    "DescribeShareGroupOffsets": "4.2",
}
"""API -> the first Apache Kafka release that offers a version known here."""


def negotiate(connection: Any, request: Any) -> None:
    """Sets `request.API_VERSION` to the highest version that both sides know. Raises BrokerFault if there is none.

    kafka-python negotiates only requests without a version, and its exception does not say which side is too old. If the
    exporter is too old, `connection.too_new` gets a sentence.
    """
    api = api_of(request)
    offered = connection.broker_version_data.api_versions.get(api.key)
    version = None if offered is None else api.agreed(*offered)
    if version is None:
        sentence = f"broker at {connection.node_id} {_why(api, offered)}"
        if _is_newer(api, offered):
            connection.too_new.add(sentence)
        raise BrokerFault(FaultReason.UNSUPPORTED_API, sentence)
    request.API_VERSION = version


def _is_newer(api: Api, offered: tuple[int, int] | None) -> bool:
    return offered is not None and api.highest < offered[0] <= offered[1]


def _why(api: Api, offered: tuple[int, int] | None) -> str:
    name, since = f"{api.name} (API key {api.key})", _SINCE.get(api.name)
    needs = "" if since is None else f": {api.name} needs Apache Kafka {since} or later"
    if offered is None and api == METADATA:
        return f"does not offer {name}: a KRaft controller responds like this; name a listener of a broker"
    if offered is None:
        return f"does not offer {name}{needs}"
    offers = f"it offers {_range(*offered)}, this exporter knows {_range(api.lowest, api.highest)}"
    if _is_newer(api, offered):
        return f"is newer than this exporter supports: of {name} {offers}; use a newer exporter"
    return f"does not offer {name} in a version that this exporter knows ({offers}){needs}"


def _range(lowest: int, highest: int) -> str:
    return f"version {lowest}" if lowest == highest else f"versions {lowest} to {highest}"
