"""Runs brokers and a separate controller, any of which can be cut off, and a second listener behind bad links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.cluster import OPTIMISED, Properties
from hangbench.kafka.isolation import IsolatedCluster
from hangbench.kafka.ports import free_ports
from hangbench.kafka.second_door import LISTENER


class SoakCluster(IsolatedCluster):
    """Each broker also listens on `door_ports`, and advertises the given port there."""

    node_java = OPTIMISED

    def __init__(
        self, version: str, *, nodes: int, properties: Properties, advertised_ports: Mapping[int, int]
    ) -> None:
        super().__init__(version, nodes=nodes, properties=properties)
        self._advertised_ports = advertised_ports
        node_ids = [broker.node_id for broker in self.brokers]
        self.door_ports: Final = dict(zip(node_ids, free_ports(nodes), strict=True))

    @property
    def door(self) -> str:
        """The bootstrap addresses of the second listener."""
        return ",".join(f"{HOST}:{port}" for port in self._advertised_ports.values())

    def _defaults(self, broker: Broker) -> Properties:
        defaults = dict(super()._defaults(broker))
        if broker is self.controller:
            return defaults
        here = f"{LISTENER}://{HOST}:{self.door_ports[broker.node_id]}"
        advertised = f"{LISTENER}://{HOST}:{self._advertised_ports[broker.node_id]}"
        return {
            **defaults,
            "listeners": f"{defaults['listeners']},{here}",
            "advertised.listeners": f"{defaults['advertised.listeners']},{advertised}",
            "listener.security.protocol.map": f"{defaults['listener.security.protocol.map']},{LISTENER}:PLAINTEXT",
        }
