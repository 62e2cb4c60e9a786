"""What every command says on standard error, and the status that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import closing

from exporter.commands.arguments import PROGRAM
from exporter.commands.rows import printable
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.kafka.collect.collector import Collector, open_collector
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError


def complain(sentence: str) -> None:
    """One line on standard error, under our name; a name in it cannot command the terminal."""
    print(f"{PROGRAM}: {printable(sentence)}", file=sys.stderr)


def complain_of_gaps(gaps: Iterable[str]) -> bool:
    """What is missing from the answer, a line each; True when anything is."""
    told = False
    for sentence in gaps:
        complain(f"incomplete: {sentence}")
        told = True
    return told


def with_collector(settings: Settings, command: Callable[[Collector], int]) -> int:
    """Run `command` on a collector of its own; a cluster or broker that cannot answer is one sentence and status 1."""
    with closing(open_collector(settings.kafka, settings.scan)) as collector:
        try:
            return command(collector)
        except (ClusterUnavailableError, BrokerFault, KafkaRequestError) as error:
            complain(str(error))
            return ExitStatus.COULD_NOT_RUN
