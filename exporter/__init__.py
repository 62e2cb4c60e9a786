"""Finds Kafka transactions that will never end, and says why."""

__version__ = "0.1.0"
PROGRAM = "kafka-transaction-exporter"
