"""A real cluster of N brokers and a separate controller; any broker can be cut off from all other nodes.

A broker that is cut off goes on answering its clients as leader and coordinator, with the metadata that it had.

Every Java process resolves the names of the other nodes with a hosts file of its own, so that each node reaches each
other node over a `Link` of its own, also where it learns the address of one from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.link import Link, Weather
from hangbench.kafka.ports import free_ports

CONTROLLER_ID: Final = 100


class IsolatedCluster(KafkaCluster):
    """`with IsolatedCluster("4.3.1", nodes=2) as cluster: cluster.cut(1)`; clients go on reaching every broker.

    `cut` needs about `broker.session.timeout.ms` (4 s) until the other brokers name another leader.
    """

    def __init__(self, version: str, *, nodes: int = 2, properties: Properties | None = None) -> None:
        self._links: dict[tuple[int, int], Link] = {}
        """From a node to a node."""
        super().__init__(version, nodes=nodes, properties=properties)
        free = free_ports(nodes + 2)
        self.controller = Broker(
            node_id=CONTROLLER_ID,
            port=free.pop(),
            controller_port=free.pop(),
            directory=Path(self._folder.name, f"node-{CONTROLLER_ID}"),
            java=self._java(*self.node_java, *self._node_options(CONTROLLER_ID)),
        )
        self._peer_ports = {broker.node_id: free.pop() for broker in self.brokers}

    def __enter__(self) -> IsolatedCluster:
        try:
            self._write_hosts()
            self._open_links()
            self._format(self.controller)
            self.controller.launch()
            for broker in self.brokers:
                broker.launch()
            self.wait_until_serving()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End every node and every link."""
        self.controller.kill()
        for link in self._links.values():
            link.close()
        super().close()

    def cut(self, node_id: int, *, peers: bool = True) -> None:
        """From now on nothing passes between this broker and the controller, nor, with `peers`, the other brokers.

        Connections stay and are silent, as where a network drops packets. Returns at once.
        """
        for link in self._links_of(node_id, peers=peers):
            link.weather = Weather.HOLE

    def mend(self, node_id: int) -> None:
        """Let everything pass again; connections that were silent are reset. Returns at once: see `wait_until_serving`."""
        for link in self._links_of(node_id, peers=True):
            link.weather = Weather.FAIR
            link.reset()

    def _links_of(self, node_id: int, *, peers: bool) -> list[Link]:
        return [link for ends, link in self._links.items() if node_id in ends and (peers or CONTROLLER_ID in ends)]

    def _open_links(self) -> None:
        ports = {**self._peer_ports, CONTROLLER_ID: self.controller.controller_port}
        for source in self._nodes():
            for target in self._nodes():
                if source not in {target, CONTROLLER_ID}:
                    self._links[source, target] = Link(ports[target], ports[target], host=_door(source, target))

    def _nodes(self) -> tuple[int, ...]:
        return (*(broker.node_id for broker in self.brokers), CONTROLLER_ID)

    def _hosts_path(self, node_id: int) -> Path:
        return Path(self._folder.name, f"hosts-{node_id}")

    def _write_hosts(self) -> None:
        for source in self._nodes():
            lines = [f"{_door(source, target)} {_name(target)}\n" for target in self._nodes()]
            self._hosts_path(source).write_text("".join([f"{HOST} localhost\n", *lines]), encoding="utf-8")

    def _node_options(self, node_id: int) -> Sequence[str]:
        return (f"-Djdk.net.hosts.file={self._hosts_path(node_id)}",)

    def _defaults(self, broker: Broker) -> Properties:
        controller = f"CONTROLLER://{_name(CONTROLLER_ID)}:{self.controller.controller_port}"
        defaults = {
            **super()._defaults(broker),
            "controller.quorum.voters": f"{CONTROLLER_ID}@{_name(CONTROLLER_ID)}:{self.controller.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PEERS:PLAINTEXT",
            "inter.broker.listener.name": "PEERS",
        }
        if broker is self.controller:
            del defaults["advertised.listeners"], defaults["inter.broker.listener.name"]
            return {**defaults, "process.roles": "controller", "listeners": controller}
        peers = f"PEERS://{_name(broker.node_id)}:{self._peer_ports[broker.node_id]}"
        listeners = f"PLAINTEXT://{broker.address},{peers}"
        return {
            **defaults,
            "process.roles": "broker",
            "listeners": listeners,
            "advertised.listeners": listeners,
        }


def _name(node_id: int) -> str:
    """What the nodes call it."""
    return f"node-{node_id}.test"


def _door(source: int, target: int) -> str:
    """The loopback address at which `source` reaches `target`: its own, or that of a link."""
    return HOST if source in {target, CONTROLLER_ID} else f"127.{source}.0.{target}"
