"""A cluster that is never booted, for questions that reach no broker."""

from __future__ import annotations

from hangbench.kafka.cluster import KafkaCluster


class NoCluster(KafkaCluster):
    """Of a version, and with the command of its tools."""

    def __init__(self) -> None:
        self.version = "4.3.1"

    @property
    def bootstrap(self) -> str:
        return "127.0.0.1:9"

    @property
    def tool_java(self) -> list[str]:
        return ["java", "-cp", "/jars of/*"]
