"""Explains transactions that hang, one after a cycle, so that the cause is on the page when somebody looks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from exporter.config.settings import ScanSettings
from exporter.cycle import Reader
from exporter.explain.causes import Cause, Conclusion, cause_of
from exporter.explain.read import TransactionToExplain, read_facts
from exporter.files import MEGABYTE
from exporter.incidents.follow import unexplained
from exporter.incidents.incident import Incidents
from exporter.kafka.collect.log_reader import LogBudget
from exporter.kafka.errors import BrokerFault, ClientClosedError, ClusterUnavailableError
from exporter.snapshot import TransactionKey

log = logging.getLogger("exporter")

NO_CAUSE = "none"
READ_MAX_BYTES = 16 * MEGABYTE
"""Bytes read of the logs for one transaction."""


TRIES_MAX = 5
"""Number of tries, each in a cycle of its own, while something cannot be read; then the cause stays unknown."""


class Explainer:
    """Explains each transaction once: an operator who wants more reads more, with `explain`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._tries: Counter[TransactionKey] = Counter()

    def causes(self, incidents: Incidents, scan: ScanSettings) -> Mapping[TransactionKey, Conclusion]:
        """Finds the cause of one transaction at most, in half of the time from a deadline to the next cycle."""
        waiting = unexplained(incidents)
        self._tries = Counter({suspect.key: self._tries[suspect.key] for suspect in waiting})
        suspect = min(waiting, key=lambda one: self._tries[one.key], default=None)
        if suspect is None or self._tries[suspect.key] >= TRIES_MAX:
            return {}
        self._tries[suspect.key] += 1
        wanted = TransactionToExplain.of(suspect, suspect.verdict)
        try:
            facts = self._reader.query(
                lambda client: read_facts(client, wanted, LogBudget(bytes_left=READ_MAX_BYTES)),
                deadline_s=(scan.interval_ms - scan.deadline_ms) / 2000,
            )
        except ClientClosedError:
            return {}
        except (BrokerFault, ClusterUnavailableError) as fault:
            log.info("%s could not be explained: %s", suspect.name, fault)
            return {}
        conclusion = cause_of(facts)
        is_incomplete = conclusion.cause is Cause.UNKNOWN and (facts.logs.own.unread or facts.state.unread)
        return {} if is_incomplete and self._tries[suspect.key] < TRIES_MAX else {suspect.key: conclusion}


def in_one_line(conclusion: Conclusion) -> tuple[str, str]:
    """(cause, evidence); for an unknown cause why it is unknown, and which causes are possible."""
    if conclusion.cause is not Cause.UNKNOWN:
        return NO_CAUSE if conclusion.cause is None else conclusion.cause.value, "; ".join(conclusion.evidence)
    possible = ", ".join(cause.value for cause in conclusion.possible)
    why = "; ".join(conclusion.missing)
    return conclusion.cause.value, f"{why}. Possible causes: {possible}" if possible else why
