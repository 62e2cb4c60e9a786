"""Prints the messages of every command on standard error, and chooses its exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final

from exporter.commands.arguments import PROGRAM
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.humanize import printable
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError

NO_RESPONSE: Final = (ClusterUnavailableError, BrokerFault, KafkaRequestError)
"""What a cluster or broker that does not respond, or refuses, raises."""


def complain(sentence: str, status: ExitStatus = ExitStatus.COULD_NOT_RUN) -> ExitStatus:
    """Print one line on standard error, with the program's name and without control characters.

    Returns `status`, for a command that ends with it.
    """
    print(f"{PROGRAM}: {printable(sentence)}", file=sys.stderr)
    return status


def complain_of_gaps(gaps: Iterable[str]) -> bool:
    """Print what is missing from the result, a line each; True if anything is."""
    printed = False
    for sentence in gaps:
        complain(f"incomplete: {sentence}")
        printed = True
    return printed


def visible_topics(collector: Collector) -> tuple[str, ...]:
    """Which topic may have been meant. Raises BrokerFault and ClusterUnavailableError."""
    return tuple(collector.query(lambda client: client.topology()).topics)


def with_collector(settings: Settings, command: Callable[[Collector], int]) -> int:
    """Run `command` on its own collector; a cluster or broker that does not respond is one sentence and status 1."""
    with closing(Collector.opened(settings.kafka, settings.scan)) as collector:
        try:
            return command(collector)
        except NO_RESPONSE as error:
            return complain(str(error))
