"""Clusters whose brokers have a second listener: for users with passwords, or behind a proxy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.ports import free_ports

PASSWORD: Final = "let-me-in"
LISTENER: Final = "SECOND"
SASL_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class TwoDoorCluster(KafkaCluster):
    """Each broker also listens on `door_port`, and tells its clients there to come to `advertised_port`."""

    def __init__(
        self,
        version: str,
        *,
        nodes: int = 1,
        properties: Properties | None = None,
        advertised_ports: Mapping[int, int] | None = None,
    ) -> None:
        """`advertised_ports` by node id, where they are not the listener's own."""
        super().__init__(version, nodes=nodes, properties=properties)
        self._advertised_ports = advertised_ports or {}
        node_ids = [broker.node_id for broker in self.brokers]
        self.door_ports: dict[int, int] = dict(zip(node_ids, free_ports(nodes), strict=True))

    @property
    def door(self) -> str:
        """The bootstrap addresses of the second listener."""
        return ",".join(f"{HOST}:{port}" for port in self.door_ports.values())

    def _defaults(self, broker: Broker) -> Properties:
        defaults = dict(super()._defaults(broker))
        port = self.door_ports[broker.node_id]
        advertised = self._advertised_ports.get(broker.node_id, port)
        defaults["listeners"] = f"{defaults['listeners']},{LISTENER}://{HOST}:{port}"
        defaults["advertised.listeners"] = f"{defaults['advertised.listeners']},{LISTENER}://{HOST}:{advertised}"
        defaults["listener.security.protocol.map"] = (
            f"{defaults['listener.security.protocol.map']},{LISTENER}:{self._door_protocol()}"
        )
        return defaults

    def _door_protocol(self) -> str:
        return "PLAINTEXT"


class GuardedCluster(TwoDoorCluster):
    """The StandardAuthorizer, and a second listener for `users`, who may do nothing until an ACL says so.

    Whoever comes by the plain listener is a super user, as the brokers themselves are.
    """

    def __init__(
        self, version: str, *, users: Iterable[str], nodes: int = 1, properties: Properties | None = None
    ) -> None:
        self._users = tuple(users)
        super().__init__(version, nodes=nodes, properties=properties)

    def _defaults(self, broker: Broker) -> Properties:
        known = " ".join(f'user_{user}="{PASSWORD}"' for user in self._users)
        return {
            **super()._defaults(broker),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            f"listener.name.{LISTENER.lower()}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": f"{SASL_LOGIN} {known};",
        }

    def _door_protocol(self) -> str:
        return "SASL_PLAINTEXT"


def java_login(user: str) -> str:
    """What a Java client's properties say so that it comes in as `user`."""
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={SASL_LOGIN} username="{user}" password="{PASSWORD}";\n'
    )
