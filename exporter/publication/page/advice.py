"""Decides the next command and the runbook for a transaction. The command prints a list or a plan, and writes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from exporter import PROGRAM
from exporter.evaluation.verdicts import TransactionRow, Verdict
from exporter.incidents.incident import Suspect
from exporter.publication.paths import RUNBOOKS
from exporter.snapshot import CLUSTER_ID_VARIABLE

BOOTSTRAP_UNKNOWN = "$BOOTSTRAP"


Suspected = TransactionRow | Suspect
"""Transaction that a command names: a row of this cycle, or a suspect of an incident."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Action of an operator for a verdict."""

    command: str
    """`abort` and `complete` get `--dry-run`; `find-hanging` needs none."""
    purpose: str
    """Purpose of the command, in a word or two."""
    runbook: str
    """The name of the alert, which is the name of its runbook."""


_PLAN = "dry run"
_EVIDENCE = "evidence"
_HANGING = Advice("abort", _PLAN, "KafkaTransactionHanging")
_LIVE = Advice("find-hanging --all", _EVIDENCE, "KafkaTransactionOwnerSilent")
_ADVICE = {
    Verdict.HANGING_STALE_EPOCH: _HANGING,
    Verdict.HANGING_NO_TRANSACTIONAL_ID: _HANGING,
    Verdict.HANGING_NOT_IN_TRANSACTION: _HANGING,
    Verdict.HANGING_BY_OFFSETS: _HANGING,
    Verdict.REPLICA_DIVERGED: Advice("find-hanging", _EVIDENCE, "KafkaTransactionReplicaDiverged"),
    Verdict.STUCK_COMPLETING: Advice("complete", _PLAN, "KafkaTransactionStuckCompleting"),
    Verdict.OVERDUE_AT_COORDINATOR: Advice("find-hanging", _EVIDENCE, "KafkaTransactionOverdueAtCoordinator"),
    Verdict.INCONCLUSIVE: Advice("find-hanging", _EVIDENCE, "KafkaTransactionInconclusive"),
    **dict.fromkeys((verdict for verdict in Verdict if not verdict.is_suspect), _LIVE),
}


def advice_of(verdict: Verdict) -> Advice:
    return _ADVICE[verdict]


def runbook_url(verdict: Verdict, base: str | None) -> str:
    """The address below `base`, or the exporter's own page."""
    return address_of(advice_of(verdict).runbook, base)


def address_of(runbook: str, base: str | None) -> str:
    """The address of the runbook with this name, likewise."""
    return f"{base or RUNBOOKS}/{runbook}.md"


PLAN_FILE = "hanging.json"


def plan_commands(bootstrap: str) -> tuple[str, str]:
    """Returns two commands for several hangs: one writes all into a file, the other prints the plan of their aborts."""
    server = _server(bootstrap)
    return (
        f"{PROGRAM} find-hanging --bootstrap-server {server} --plan-file {PLAN_FILE}",
        f"{PROGRAM} abort --bootstrap-server {server} --plan-file {PLAN_FILE} --dry-run",
    )


def _server(bootstrap: str) -> str:
    return shlex.quote(bootstrap) if bootstrap else BOOTSTRAP_UNKNOWN


def next_command(row: Suspected, bootstrap: str) -> str:
    """A line for a shell. It has no text that a client can choose freely: topic names are quoted where they need it."""
    command = advice_of(row.verdict).command
    words = [PROGRAM, command, "--bootstrap-server", _server(bootstrap), "--topic", shlex.quote(row.topic)]
    words += ["--partition", str(row.partition)]
    if not command.startswith("find-hanging"):
        words += ["--start-offset", str(row.start_offset), "--dry-run"]
    return " ".join(words)


def terminate_command(transactional_id: str, bootstrap: str) -> str:
    """The plan to have a live transaction aborted, for a shell: an id is quoted, a client may have chosen any text."""
    words = [PROGRAM, "force-terminate", "--bootstrap-server", _server(bootstrap)]
    return " ".join([*words, "--transactional-id", shlex.quote(transactional_id), "--dry-run"])


def why_command(producer_id: int, bootstrap: str) -> str:
    """A line for a shell about a producer that cannot start, likewise."""
    return f"{PROGRAM} why --bootstrap-server {_server(bootstrap)} --producer-id {producer_id}"


def variables_of_producer(transactional_id: str | None, producer_id: int, bootstrap: str, cluster_id: str) -> str:
    """The line to paste before the commands of a runbook about a producer that cannot start."""
    producer = {"PRODUCER_ID": str(producer_id), "TRANSACTIONAL_ID": transactional_id}
    return _exports({"BOOTSTRAP": bootstrap, **producer, CLUSTER_ID_VARIABLE: cluster_id})


def variables(row: Suspected, bootstrap: str, cluster_id: str) -> str:
    """The line to paste before the commands of a runbook."""
    place = {"TOPIC": row.topic, "PARTITION": str(row.partition), "START_OFFSET": str(row.start_offset)}
    owner = {"TRANSACTIONAL_ID": row.transactional_id}
    return _exports({"BOOTSTRAP": bootstrap, **place, **owner, CLUSTER_ID_VARIABLE: cluster_id})


def _exports(value_by_name: Mapping[str, str | None]) -> str:
    """A line for a shell that sets the variables whose value is known, and can be shown.

    Any client chooses ids: a line end in one would begin another line on the page, such as a false command.
    """
    shown = {name: value for name, value in value_by_name.items() if value and value.isprintable()}
    known = (f"{name}={shlex.quote(value)}" for name, value in shown.items())
    return " ".join(["export", *known])
