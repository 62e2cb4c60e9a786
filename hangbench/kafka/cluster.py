"""A real Apache Kafka of any version for as long as a `with` lasts: KRaft, loopback, temporary folder."""

from __future__ import annotations

import base64
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.maven import BrokersUnavailable, kafka_jars, made_once, require_program
from hangbench.kafka.ports import free_ports
from hangbench.kafka.shared_classes import SILENT, archive_of
from hangbench.kafka.topics import Topics

CLUSTER_ID: Final = "ZXhwb3J0ZXItdGVzdHMtMQ"  # any 16 bytes in base64
OPTIMISED: Final = ("-Xmx512m", "-XX:+UseSerialGC")
SHORT_LIVED: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # it ends before optimising pays

Properties = Mapping[str, "str | int"]


class KafkaCluster:
    """`with KafkaCluster("4.3.1", nodes=3, properties={...}) as cluster:` boots it and ends it.

    Use it from a thread that outlives it: the kernel kills the brokers with the thread that started them.
    """

    node_java: ClassVar[tuple[str, ...]] = ("-Xmx512m", *SHORT_LIVED)

    def __init__(
        self, version: str, *, nodes: int = 1, properties: Properties | None = None, port: int | None = None
    ) -> None:
        """`port` is that of the first broker; a free one where it is None."""
        self.version = version
        self._overrides: Properties = properties or {}
        self._jars = kafka_jars(version)
        self._folder = tempfile.TemporaryDirectory(prefix=f"kafka-{version}-", ignore_cleanup_errors=True)
        ports = free_ports(2 * nodes)
        ports = ports if port is None else [port, *ports[1:]]
        self.brokers = tuple(
            Broker(
                node_id=index + 1,
                port=ports[2 * index],
                controller_port=ports[2 * index + 1],
                directory=Path(self._folder.name, f"node-{index + 1}"),
                java=self._java(*self.node_java, *self._node_options(index + 1)),
            )
            for index in range(nodes)
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def topics(self) -> Topics:
        return Topics(self.bootstrap, replication_factor=len(self.brokers))

    def broker(self, node_id: int) -> Broker:
        return self.brokers[node_id - 1]

    def __enter__(self) -> KafkaCluster:
        try:
            self._format()
            for broker in self.brokers:
                broker.launch()
            self.wait_until_serving()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every broker. Nothing on their disks is kept, so nobody waits for an orderly shutdown."""
        for broker in self.brokers:
            broker.kill()
        self._folder.cleanup()

    def wait_until_serving(self) -> None:
        """Wait until every running broker answers and knows every running broker as live."""
        running = [broker for broker in self.brokers if broker.running]
        for broker in running:
            broker.wait_until_serving({other.node_id for other in running})

    def tool(self, main_class: str, *arguments: str, timeout_s: float = 60) -> str:
        """Run one of Kafka's own command line tools from the same jars, return what it printed."""
        run = subprocess.run(
            self.tool_command(main_class, *arguments),
            cwd=self._folder.name,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if run.returncode != 0:
            raise subprocess.CalledProcessError(run.returncode, main_class, run.stdout, run.stderr)
        return run.stdout

    def downgrade_transactions(self, version: int) -> None:
        """Lowers the feature transaction.version (KIP-890), which the brokers begin with at their newest."""
        feature = f"transaction.version={version}"
        arguments = ("--bootstrap-server", self.bootstrap, "downgrade", "--feature", feature)
        self.tool("org.apache.kafka.tools.FeatureCommand", *arguments)

    def tool_command(self, main_class: str, *arguments: str) -> list[str]:
        """The command that runs one of Kafka's own command line tools from the same jars."""
        return [*self.tool_java, main_class, *arguments]

    @property
    def tool_java(self) -> list[str]:
        """The command that runs a class of these jars which soon ends, without that class."""
        return self._java(*SHORT_LIVED)

    def _java(self, *options: str) -> list[str]:
        java = require_program("java", "openjdk-17-jre-headless")
        log_level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        classes = f"{self._jars}/*"
        return [java, *self._shared_classes(), *options, log_level, "-Djava.net.preferIPv4Stack=true", "-cp", classes]

    def _shared_classes(self) -> tuple[str, ...]:
        archive = archive_of(self.version, _rehearse)
        return () if archive is None else (SILENT, f"-XX:SharedArchiveFile={archive}")

    def _node_options(self, _node_id: int) -> Sequence[str]:
        """Options of the Java of one node alone."""
        return ()

    def _format(self, *more: Broker) -> None:
        """Give every node the files of a formatted folder, under its own ids: the tool costs half a second of Java."""
        for broker in (*self.brokers, *more):
            broker.configure({**self._defaults(broker), **self._overrides})
        formatted = self._formatted_files()
        for broker in (*self.brokers, *more):
            data = broker.directory / "data"
            data.mkdir(exist_ok=True)
            for name, content in formatted.items():
                (data / name).write_bytes(content)
            meta = data / "meta.properties"
            meta.write_text(_of_node(meta.read_text(), broker.node_id))

    def _formatted_files(self) -> Mapping[str, bytes]:
        """Of a folder that Kafka's tool has formatted, kept beside the jars."""

        def make(made: Path) -> None:
            self._format_by_the_tool(self.brokers[0])
            made.mkdir()
            for path in (self.brokers[0].directory / "data").iterdir():
                if path.is_file():
                    shutil.copy(path, made)

        kept = made_once(self._jars.with_name(f"{self._jars.name}-formatted-{CLUSTER_ID}"), make)
        return {path.name: path.read_bytes() for path in kept.iterdir()}

    def _format_by_the_tool(self, broker: Broker) -> None:
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(broker.properties_path)]
        try:
            self.tool("kafka.tools.StorageTool", *arguments)
        except subprocess.CalledProcessError as error:
            raise BrokersUnavailable(
                f"Kafka {self.version} refuses to format node {broker.node_id}: {error.stdout}{error.stderr}"
            ) from error

    def _defaults(self, broker: Broker) -> Properties:
        """The smallest honest cluster: replicated as far as it has nodes, and quick to start and to notice a death."""
        listener, controller = f"PLAINTEXT://{broker.address}", f"CONTROLLER://{HOST}:{broker.controller_port}"
        voters = ",".join(f"{node.node_id}@{HOST}:{node.controller_port}" for node in self.brokers)
        return {
            "process.roles": "broker,controller",
            "node.id": broker.node_id,
            "controller.quorum.voters": voters,
            "listeners": f"{listener},{controller}",
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(broker.directory / "data"),
            "auto.create.topics.enable": "false",
            "broker.heartbeat.interval.ms": 500 if len(self.brokers) > 1 else 1000,
            "broker.session.timeout.ms": 4000,
            "default.replication.factor": len(self.brokers),
            "group.initial.rebalance.delay.ms": 0,
            "metadata.max.idle.interval.ms": 5000,  # at 500 an idle broker takes 2 % of a processor
            "offsets.topic.num.partitions": 5,
            "offsets.topic.replication.factor": len(self.brokers),
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 5,
            "transaction.state.log.replication.factor": len(self.brokers),
        }


def _of_node(meta_properties: str, node_id: int) -> str:
    """The same with the id of another node, and an id of its own for the directory (from 3.7 on)."""
    directory_id = base64.urlsafe_b64encode(b"\1" + random.randbytes(15)).decode().rstrip("=")
    text = re.sub(r"(?m)^node\.id=.*", f"node.id={node_id}", meta_properties)
    return re.sub(r"(?m)^directory\.id=.*", f"directory.id={directory_id}", text)


class MeasuredCluster(KafkaCluster):
    """For benchmarks, and what runs for long: with the optimising compiler."""

    node_java = OPTIMISED


class _Rehearsal(KafkaCluster):
    """Writes the classes that its broker has loaded to `archive` when that is shut down."""

    def launch_and_stop(self, archive: Path) -> None:
        (broker,) = self.brokers
        self._format()
        broker.java = [broker.java[0], SILENT, f"-XX:ArchiveClassesAtExit={archive}", *broker.java[1:]]
        broker.start()
        broker.stop()

    def _shared_classes(self) -> tuple[str, ...]:
        return ()


def _rehearse(version: str, archive: Path) -> None:
    rehearsal = _Rehearsal(version)
    try:
        rehearsal.launch_and_stop(archive)
    finally:
        rehearsal.close()
