"""The next command and the runbook of every suspect: the command line takes the command, and it writes nothing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts import FOLDER
from exporter.commands.arguments import build_parser
from exporter.evaluation.verdicts import Verdict
from exporter.publication.page.advice import (
    advice_of,
    next_command,
    runbook_url,
    terminate_command,
    variables,
    variables_of_producer,
)
from exporter.snapshot import CLUSTER_ID_VARIABLE
from grafana.suspects import ADVICE
from tests.publication.builders import hanging, transaction

SUSPECTS = [verdict for verdict in Verdict if verdict.is_suspect]


@pytest.mark.parametrize("verdict", SUSPECTS, ids=lambda verdict: verdict.label)
def test_the_next_command_is_accepted_and_only_prints(verdict: Verdict) -> None:
    """A command that could write is a dry run; the transaction is that of the row."""
    row = transaction(topic="orders", partition=3, verdict=verdict, start_offset=1234)
    arguments = vars(build_parser().parse_args(shlex.split(next_command(row, "kafka-1:9092,kafka-2:9092"))[1:]))

    assert arguments["setting:kafka.bootstrap.servers"] == "kafka-1:9092,kafka-2:9092"
    assert (arguments["topic"], arguments["partition"]) == ("orders", 3)
    if advice_of(verdict).command != "find-hanging":
        assert (arguments["start_offset"], arguments["dry_run"]) == (1234, True)


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_name_is_executed_by_a_shell(topic: str, bootstrap: str) -> None:
    """Any name is one word of the command."""
    words = shlex.split(next_command(hanging(topic), bootstrap))
    assert (words[words.index("--topic") + 1], words[words.index("--bootstrap-server") + 1]) == (topic, bootstrap)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_live_transaction_is_terminated_by_its_id_alone(transactional_id: str, bootstrap: str) -> None:
    """Any id is one word of the command, and it is a dry run."""
    _, command, *words = shlex.split(terminate_command(transactional_id, bootstrap))
    assert (command, words[1::2][:2], words[-1]) == ("force-terminate", [bootstrap, transactional_id], "--dry-run")


def printable_of(values: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value.isprintable()}


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_variables_are_those_of_the_runbooks_and_nothing_is_executed(topic: str, bootstrap: str) -> None:
    """A line for a shell, with every value as it is, but for those that a page cannot show."""
    row = transaction(topic=topic, partition=3, start_offset=1234, transactional_id=f"{topic} 7")
    export, *words = shlex.split(variables(row, bootstrap, "c-1"))
    expected = {"BOOTSTRAP": bootstrap, "TOPIC": topic, "PARTITION": "3", "START_OFFSET": "1234"}
    expected |= {"TRANSACTIONAL_ID": f"{topic} 7", CLUSTER_ID_VARIABLE: "c-1"}

    assert (export, dict(word.split("=", 1) for word in words)) == ("export", printable_of(expected))
    assert "BOOTSTRAP" not in variables(hanging(), "", "")
    assert "TRANSACTIONAL_ID" not in variables(transaction(transactional_id=None), bootstrap, "")


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_variables_of_a_producer_are_those_of_its_runbook(transactional_id: str, bootstrap: str) -> None:
    export, *words = shlex.split(variables_of_producer(transactional_id, 7, bootstrap, "c-1"))
    expected = {"BOOTSTRAP": bootstrap, "PRODUCER_ID": "7", "TRANSACTIONAL_ID": transactional_id}
    expected[CLUSTER_ID_VARIABLE] = "c-1"

    assert (export, dict(word.split("=", 1) for word in words)) == ("export", printable_of(expected))
    assert variables_of_producer("x\nktx abort", 7, "", "") == "export PRODUCER_ID=7"
    assert variables_of_producer(None, 7, "", "") == "export PRODUCER_ID=7"


def test_without_brokers_the_command_has_the_variable_of_the_runbooks() -> None:
    """A reader sets it once."""
    assert "--bootstrap-server $BOOTSTRAP --topic" in next_command(hanging(), "")


@pytest.mark.parametrize("verdict", SUSPECTS, ids=lambda verdict: verdict.label)
def test_page_alerts_and_dashboard_give_the_same_advice(verdict: Verdict) -> None:
    """The same runbook, which exists, and the same command."""
    (dashboard,) = (advice for advice in ADVICE if re.fullmatch(advice.verdicts, verdict.label))
    assert runbook_url(verdict, None) == f"/runbooks/{dashboard.runbook}.md"
    assert runbook_url(verdict, "https://wiki/x") == f"https://wiki/x/{dashboard.runbook}.md"
    assert (Path(FOLDER) / "runbooks" / f"{dashboard.runbook}.md").is_file()
    assert dashboard.command[0].split()[1] == advice_of(verdict).command
    assert ("--dry-run" in dashboard.command) == (advice_of(verdict).command != "find-hanging")
