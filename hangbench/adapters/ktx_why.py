"""`ktx why` of kafka-transaction-exporter, as a program: says where a group, or a producer, stands still."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from hangbench.adapters.answer import Where, asked, give_up, ktx_command, print_held
from hangbench.adapters.ktx import INCOMPLETE, SUCCESS, TIMEOUT_S


def main() -> None:
    """The program is `ktx`, or the command in KTX."""
    group = asked("GROUP")
    command = [
        *ktx_command(),
        *("why", "--format", "json", "--bootstrap-server", asked("BOOTSTRAP"), "--command-config", asked("CONFIG")),
        f"--blocked.after={asked('YOUNG_MS')}ms",
        *(("--group", group) if group else ("--transactional-id", asked("TRANSACTIONAL_ID"))),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if "there is no group" in run.stderr:  # its offsets are gone with its topic
        print_held([])
        return
    if run.returncode not in {SUCCESS, INCOMPLETE}:
        give_up(run.stderr or f"exit status {run.returncode}")
    found = json.loads(run.stdout)
    print_held(of_group(found) if group else of_producer(found), complete=not found["unknown"])


def of_group(found: Mapping[str, Any]) -> Iterator[Where]:
    """Where the group stands still behind a transaction that is not young."""
    for hold in found["holds"]:
        row = hold["transaction"]
        if not hold["is_young"]:
            yield row["topic"], row["partition"], row["transactional_id"]


def of_producer(found: Mapping[str, Any]) -> Iterator[Where]:
    """Where the end of its own transaction is missing, so that it cannot start."""
    for stuck in found["stuck"]:
        for marker in stuck["partitions"]:
            yield marker["topic"], marker["partition"], None


if __name__ == "__main__":
    main()
