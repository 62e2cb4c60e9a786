"""Runs Kafka's own `kafka-transactions.sh find-hanging`, from the jars of the broker's version."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.brokers.cluster import KafkaCluster
from tests.verification.situations.words import Key

NO_DETAIL = "Enable debug logging for additional detail."
TOOL = "org.apache.kafka.tools.TransactionsCommand"
PATIENCE_S = 3
"""How long its client tries again: a minute by default."""


@dataclass(frozen=True, slots=True)
class JavaAnswer:
    """What one run printed: the rows of its table, or the sentence with which it ended instead."""

    hanging: frozenset[Key]
    death: str | None


def find_hanging(
    cluster: KafkaCluster,
    bootstrap: str,
    *,
    arguments: Sequence[str] = ("--broker-id", "1"),
    client_properties: str = "",
    patience_s: int = PATIENCE_S,
    folder: Path,
) -> JavaAnswer:
    """The tool's hanging transactions. Its maximum time-out is 0 minutes: it filters by the client's timestamps."""
    config = folder / f"client-{abs(hash((bootstrap, client_properties)))}.properties"
    config.write_text(
        f"{client_properties}default.api.timeout.ms={patience_s * 1000}\nrequest.timeout.ms={patience_s * 1000}\n"
    )
    try:
        printed = cluster.tool(
            TOOL,
            *("--bootstrap-server", bootstrap, "--command-config", str(config)),
            *("find-hanging", "--max-transaction-timeout", "0", *arguments),
        )
    except subprocess.CalledProcessError as error:
        return JavaAnswer(frozenset(), sentence_of(f"{error.stdout}\n{error.stderr}"))
    return JavaAnswer(frozenset(rows(printed)), None)


def rows(printed: str) -> list[Key]:
    """(topic, partition, producer id) of each row of its table."""
    heading, *lines = [line.split() for line in printed.splitlines() if line.strip()]
    topic, partition, producer_id = (heading.index(name) for name in ("Topic", "Partition", "ProducerId"))
    return [(line[topic], int(line[partition]), int(line[producer_id])) for line in lines]


def sentence_of(printed: str) -> str:
    """The line that says why it ended: the deepest cause that it names, else the first line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not line.startswith("[")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    sentence = (causes or lines or ["ended without a word"])[-1 if causes else 0]
    return sentence.removeprefix("org.apache.kafka.common.errors.").removesuffix(" " + NO_DETAIL)
