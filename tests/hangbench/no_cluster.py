"""A cluster that is never booted, for questions that reach no broker."""

from __future__ import annotations

from hangbench.kafka.cluster import KafkaCluster


class NoCluster(KafkaCluster):
    """Of a version, and with the command of its tools."""

    def __init__(self) -> None:
        self.version = "4.3.1"

    def tool_command(self, main_class: str, *arguments: str) -> list[str]:
        return ["java", "-cp", "/jars of/*", main_class, *arguments]
