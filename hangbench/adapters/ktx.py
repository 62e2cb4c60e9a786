"""`ktx find-hanging` of kafka-transaction-exporter, as a program: nothing of it is imported."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from hangbench.adapters.answer import Said, answer, asked, give_up, ktx_command

TIMEOUT_S = 80
SUCCESS, INCOMPLETE = 0, 4
NEEDS_A_PERSON = frozenset({"stuck_completing", "overdue_at_coordinator", "replica_diverged"})


def main() -> None:
    """The program is `ktx`, or the command in KTX."""
    grace = asked("GRACE_MS")
    command = [
        *ktx_command(),
        *("find-hanging", "--all", "--format", "json"),
        *("--bootstrap-server", asked("BOOTSTRAP"), "--command-config", asked("CONFIG")),
        f"--kafka.request.timeout.ms={asked('REQUEST_TIMEOUT_MS')}",
        *((f"--stuck-after={grace}ms", f"--overdue-slack={grace}ms") if grace else ("--stuck-after=0",)),
        *(("--topic", asked("TOPIC")) if asked("TOPIC") else ()),
        *(("--partition", asked("PARTITION")) if asked("PARTITION") else ()),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if run.returncode not in {SUCCESS, INCOMPLETE}:
        give_up(run.stderr or f"exit status {run.returncode}")
    found = json.loads(run.stdout)
    answer(map(said, found["transactions"]), complete=found["coverage"]["complete"])


def said(transaction: Any) -> Said:
    """A row of its JSON in HangBench's words; by offsets it knows no producer id."""
    verdict = transaction["verdict"]
    says = "open"
    if verdict.startswith("hanging_"):
        says = "hanging"
    elif verdict in NEEDS_A_PERSON:
        says = "attention"
    elif verdict == "inconclusive":
        says = "unknown"
    producer_id = transaction["producer_id"]
    return transaction["topic"], transaction["partition"], None if producer_id < 0 else producer_id, says


if __name__ == "__main__":
    main()
