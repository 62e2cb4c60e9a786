"""Kafka's own `kafka-transactions.sh find-hanging`, of the brokers' version, once for each broker.

Its maximum time-out is 0 minutes: it filters by the client's timestamps before it looks at coordinators.
"""

from __future__ import annotations

import shlex
import subprocess

from hangbench.adapters.answer import Said, answer, asked, give_up

NO_DETAIL = "Enable debug logging for additional detail."
TOOL = "org.apache.kafka.tools.TransactionsCommand"
TIMEOUT_S = 80


def main() -> None:
    """One run for each broker, or one for a topic; the first death is the answer."""
    broker_ids = [broker_id for broker_id in asked("BROKER_IDS").split(",") if broker_id]
    topic = ["--topic", asked("TOPIC")] if asked("TOPIC") else []
    topic += ["--partition", asked("PARTITION")] if asked("PARTITION") else []
    runs = [[*topic, "--broker-id", broker_id] for broker_id in broker_ids] or [topic]
    rows: dict[Said, None] = {}
    for arguments in runs:
        rows |= dict.fromkeys(find_hanging(arguments))
    answer(rows)


def find_hanging(arguments: list[str]) -> list[Said]:
    """Returns the rows that one run prints. Ends the adapter where it fails."""
    run = subprocess.run(
        [
            *shlex.split(asked("JAVA")),
            TOOL,
            *("--bootstrap-server", asked("BOOTSTRAP"), "--command-config", asked("CONFIG")),
            *("find-hanging", "--max-transaction-timeout", "0", *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if run.returncode != 0:
        give_up(sentence_of(f"{run.stdout}\n{run.stderr}"))
    return rows(run.stdout)


def rows(printed: str) -> list[Said]:
    """The rows of its table."""
    heading, *lines = [line.split() for line in printed.splitlines() if line.strip()]
    topic, partition, producer_id = (heading.index(name) for name in ("Topic", "Partition", "ProducerId"))
    return [(line[topic], int(line[partition]), int(line[producer_id]), "hanging") for line in lines]


def sentence_of(printed: str) -> str:
    """The line that says why it ended: the deepest cause that it names, else the first line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not line.startswith("[")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    sentence = (causes or lines or ["ended without a word"])[-1 if causes else 0]
    return sentence.removeprefix("org.apache.kafka.common.errors.").removesuffix(" " + NO_DETAIL)


if __name__ == "__main__":
    main()
