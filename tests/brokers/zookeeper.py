"""Kafka 2.x and 3.x with its metadata in ZooKeeper: one server of ZooKeeper, whose jars are among Kafka's, and brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.cluster import SHORT_LIVED, KafkaCluster, Properties
from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import JavaProcess

WITHOUT_ADMIN: Final = "-Dzookeeper.admin.enableServer=false"
OF_CONTROLLERS: Final = ("process.roles", "node.id", "controller.quorum.voters", "controller.listener.names")


class ZooKeeperCluster(KafkaCluster):
    """Nothing is formatted: a broker registers in ZooKeeper, and waits for it."""

    def __init__(self, version: str, *, nodes: int = 1, properties: Properties | None = None) -> None:
        super().__init__(version, nodes=nodes, properties=properties)
        (self._port,) = free_ports(1)
        self._zookeeper: JavaProcess | None = None

    def close(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.kill()
        super().close()

    def _format(self, *more: Broker) -> None:
        for broker in (*self.brokers, *more):
            broker.configure({**self._defaults(broker), **self._overrides})
        folder = Path(self._folder.name, "zookeeper")
        folder.mkdir()
        properties = folder / "zookeeper.properties"
        properties.write_text(f"dataDir={folder}\nclientPort={self._port}\nclientPortAddress={HOST}\n")
        main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [*self._java(*SHORT_LIVED, WITHOUT_ADMIN), main_class, str(properties)]
        self._zookeeper = JavaProcess(command, folder, folder / "output.log")

    def _defaults(self, broker: Broker) -> Properties:
        kept = {name: value for name, value in super()._defaults(broker).items() if name not in OF_CONTROLLERS}
        return {
            **kept,
            "broker.id": broker.node_id,
            "listeners": f"PLAINTEXT://{broker.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
            "zookeeper.connect": f"{HOST}:{self._port}",
            "zookeeper.session.timeout.ms": 6000,
        }
