"""Prints an answer as HangBench reads it, and ends an adapter that has none."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable
from typing import NoReturn

Said = tuple[str, int, "int | None", str]
"""(topic, partition, producer id, what is said of it)."""

Where = tuple[str, int, "str | None"]
"""(topic, partition, transactional id of what holds a party there)."""


def asked(name: str) -> str:
    """A part of the question; empty where there is none."""
    return os.environ.get(f"HANGBENCH_{name}", "")


def ktx_command() -> list[str]:
    """The command that starts kafka-transaction-exporter: KTX, or `ktx` where that is empty. Raises ValueError."""
    return shlex.split(os.environ.get("KTX", "")) or ["ktx"]


def answer(rows: Iterable[Said], *, complete: bool = True) -> None:
    transactions = [
        {"topic": topic, "partition": partition, "producer_id": producer_id, "says": says}
        for topic, partition, producer_id, says in rows
    ]
    print(json.dumps({"hangbench": 1, "complete": complete, "transactions": transactions}))


def print_held(places: Iterable[Where], *, complete: bool = True) -> None:
    """Prints each place where the party stands still."""
    held = [{"topic": topic, "partition": partition, "behind": behind} for topic, partition, behind in places]
    print(json.dumps({"hangbench": 1, "complete": complete, "held": held}))


def give_up(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    sys.exit(1)
