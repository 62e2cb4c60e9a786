"""Prints the messages of every command on standard error, and chooses its exit status."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Final

from exporter import PROGRAM
from exporter.commands.lines import fit_terminal
from exporter.commands.names import suggestion
from exporter.commands.progress import SILENT_SECONDS
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import humanize_duration, printable
from exporter.evaluation.verdicts import Evaluation
from exporter.kafka.collect.collector import Collector
from exporter.kafka.errors import BrokerFault, ClusterUnavailableError
from exporter.kafka.lookups import KafkaRequestError, beyond_partitions
from exporter.snapshot import CLUSTER_ID_VARIABLE, ClusterIdentity

NO_RESPONSE: Final = (ClusterUnavailableError, BrokerFault, KafkaRequestError)
"""Exceptions for a cluster or broker that does not respond, or refuses."""


def complain(sentence: str, status: ExitStatus = ExitStatus.COULD_NOT_RUN) -> ExitStatus:
    """Prints one line on standard error, with the program's name and without control characters.

    It comes after what was printed on standard output, also where both are one file. Returns `status`, for a command that
    ends with it.
    """
    sys.stdout.flush()
    print(fit_terminal(f"{PROGRAM}: {printable(sentence)}", stream=sys.stderr), file=sys.stderr, flush=True)
    return status


def complain_of_gaps(gaps: Iterable[str]) -> bool:
    """Prints what is missing from the result, a line each; True if anything is."""
    printed = False
    for sentence in gaps:
        complain(f"incomplete: {sentence}")
        printed = True
    return printed


def visible_topics(collector: Collector) -> tuple[str, ...]:
    """Returns the topics that may have been meant. Raises BrokerFault and ClusterUnavailableError."""
    return tuple(collector.query(lambda client: client.topology()).topics)


def why_missing(collector: Collector, topic: str, partition: int | None) -> str:
    """Says what of a place is not there: the partition, or perhaps the topic, with the name that may have been meant.

    Raises BrokerFault and ClusterUnavailableError.
    """
    topology = collector.query(lambda client: client.topology())
    if partition is not None and topology.rows_of(topic) and (beyond := beyond_partitions(topology, topic, partition)):
        return beyond
    what = f"topic {topic}" if partition is None else f"{topic}-{partition}"
    near = suggestion(topic, topology.topics)
    return f"{what} does not exist, or is not visible (needs DESCRIBE on the topic){near}"


def why_unknown(evaluation: Evaluation, topic: str, partition: int) -> str:
    """Says that a partition of a look at it alone could not be read; empty if it was."""
    if evaluation.snapshot.partitions.is_covered.all():
        return ""
    missing = "; ".join(gaps(evaluation.snapshot))
    return f"whether a transaction is open on {topic}-{partition} is not known: {missing}"


def wait(seconds: float) -> None:
    """Waits in steps of a second: a signal that comes just before a wait is handled after it, which may be hours later."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))


@contextmanager
def waiting_notice(sentence: str, is_waiting: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Prints `sentence` on a terminal if the block still runs after SILENT_SECONDS and `is_waiting()` is true then."""

    def notify() -> None:
        if is_waiting():
            complain(sentence)

    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(SILENT_SECONDS, notify)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def opened_collector(settings: Settings) -> Iterator[Collector]:
    """A collector of one command, which says on a terminal that no broker has responded yet. Raises CredentialsError.

    Brokers of another cluster than the expected one are refused with the reason.
    """
    kafka, scan = settings.kafka, settings.scan
    with closing(Collector.opened(kafka, scan)) as collector:
        collector.recall(expected_cluster(settings))
        wait = f"no response from {kafka.bootstrap} yet; waiting for up to {humanize_duration(scan.deadline_ms)}"
        with waiting_notice(wait, lambda: not collector.has_response):
            yield collector


def expected_cluster(settings: Settings) -> ClusterIdentity:
    """Returns the cluster of the alert or the page of this shell, with the way on where another one responds."""
    return ClusterIdentity(cluster_id=settings.expected_cluster_id, way_on=_OF_ANOTHER_ALERT)


_OF_ANOTHER_ALERT: Final = (
    f"; {CLUSTER_ID_VARIABLE} in this shell is of the cluster of an alert or a page: name the brokers of that cluster, or "
    "unset it"
)


def with_collector(settings: Settings, command: Callable[[Collector], int]) -> int:
    """Runs `command` on its own collector; a cluster or broker that does not respond is one sentence and status 1."""
    with opened_collector(settings) as collector:
        try:
            return command(collector)
        except NO_RESPONSE as error:
            return complain(str(error))
