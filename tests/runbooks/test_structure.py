"""The runbooks as text: one for each alert, four sections, and nothing named that does not exist."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

from alerts.document import commands_block
from exporter import PROGRAM
from exporter.artifacts.rules import ALERTS, RECORDING, load, page_of, reason_of, rules_of, thresholds
from exporter.audit.tables import FINDINGS
from exporter.audit.verdicts import AuditVerdict
from exporter.commands.arguments import build_parser
from exporter.config.settings import SETTINGS
from exporter.evaluation.document import TRANSACTION_KEYS
from exporter.evaluation.protection import CHECKS
from exporter.evaluation.verdicts import InconclusiveReason, OutcomeEvidence, Verdict
from exporter.kafka.collect.scan import NO_LEADER_REASON
from exporter.kafka.errors import ErrorCode, FaultReason
from exporter.publication.metrics.table import METRICS
from exporter.publication.page.suspects import what_to_paste
from exporter.snapshot import TransactionState
from exporter.transaction_log.events import Outcome
from tests.each import each
from tests.publication.builders import hanging
from tests.runbooks.desk import KAFKA_TOOLS
from tests.runbooks.pages import COMMON, FIRST_BLOCK, FOLDER, Page, pages

ROOT: Final = Path(__file__).parents[2]
RULES: Final = [rule for rule in rules_of(load(ALERTS)) if "alert" in rule]
ALERT_NAMES: Final = {name for rule in RULES for name in (str(rule["alert"]), page_of(rule))}
"""Alerts, and the runbooks of their reasons."""
PAGES: Final = pages()
RUNBOOKS: Final = {name: page for name, page in PAGES.items() if name != COMMON}
every_page: Final = each(PAGES.values(), name=lambda page: page.name)

SECTIONS: Final = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
LINES_MAX: Final = 75
"""Two screens; the common page may be longer."""

KAFKA_SETTINGS: Final = {
    *("isolation.level=read_committed", "min.insync.replicas", "transaction.max.timeout.ms", "transaction.version"),
    *("transaction.partition.verification.enable", "unclean.leader.election.enable", "FinalizedVersionLevel"),
    *(
        "transaction.timeout.ms",
        "transaction.partition.verification.enable=true",
        "unclean.leader.election.enable=false",
    ),
    "cleanup.policy",
}
KAFKA_WORDS: Final = {
    *(
        "read_committed",
        "read_uncommitted",
        "__consumer_offsets",
        "__transaction_state",
        "CURRENT-OFFSET",
        "LAG",
        "Isr",
        "ProducerEpoch",
    ),
    *("kafka-transactions.sh find-hanging", "permissionType=DENY", "compact", "server.properties", "INVALID_TXN_STATE"),
    *("kafka-reassign-partitions.sh", "check", "kafka-transactions.sh abort"),
    *("producer.id.expiration.ms", "isolation.level=read_uncommitted"),
    "--resource-pattern-type prefixed --topic orders-",
}
OTHER_WORDS: Final = {
    *("yes", "hanging_*", "inconclusive_reason", "audit.jsonl", "hanging.json", "recording.yaml", "alerts.yaml"),
    *("true", "false", "alerting", '"1"', "cluster", "cluster_id", "--command-config client.properties", "--watch 30s"),
    "client.properties",
    *("host:port,host:port", "http://host:9814", "http://host:9090", "http://host:9093"),
    *("User:kafka-transaction-exporter", "TRANSACTIONAL_ID='orders-1'", "bootstrap.servers", "variables"),
    *("group", "sum", "count", "unknown_version", "malformed"),
}
KNOWN_ISSUES: Final = {"KAFKA-12671", "KAFKA-18957", "KAFKA-19999", "KAFKA-20090", "KAFKA-20785"}


UNCHECKED: Final = re.compile(
    r"\b(nothing hangs|none (now|yet)|no record is lost yet|as (usual|before)|kafka works|all is well)\b", re.IGNORECASE
)
"""Claims about a state that the alert does not check: the text is the same while the opposite is true."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command by its name."""
    (commands,) = [action for action in build_parser()._actions if isinstance(action.choices, dict)]
    assert isinstance(commands.choices, dict)
    return commands.choices


def vocabulary() -> set[str]:
    """Every name that the project defines."""
    options = {
        option for parser in parsers().values() for action in parser._actions for option in action.option_strings
    }
    return {
        *ALERT_NAMES,
        *map(reason_of, RULES),
        *options,
        *parsers(),
        *("config check", "find-hanging --format json", "--force VERDICT", "doctor --cluster"),
        *(metric.name for metric in METRICS),
        *CHECKS,
        *(setting.name for setting in SETTINGS),
        *(verdict.label for verdict in Verdict),
        *(reason.value for reason in InconclusiveReason),
        *(outcome.value for outcome in OutcomeEvidence),
        *(state.value for state in TransactionState),
        *(reason.value for reason in FaultReason),
        *(code.name for code in ErrorCode),
        NO_LEADER_REASON,
        *(outcome.value for outcome in Outcome),
        *thresholds([*load(RECORDING), *load(ALERTS)]),
        *TRANSACTION_KEYS,
        *(verdict.value for verdict in AuditVerdict),
        *FINDINGS.names,
        *("pipeline audit", "audit_transactions", "pip install deltalake duckdb", "python3", "findings.csv"),
    }


def variables_of_the_common_page() -> set[str]:
    rows = re.findall(r"^\| (`[A-Z_`, ]+`) \|", PAGES[COMMON].text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"[A-Z_]+", row)}


def test_there_is_one_runbook_for_each_alert_and_no_other() -> None:
    """By its name or that of its other form, with the common page; the folder has no other file."""
    assert set(RUNBOOKS) == {page_of(rule) for rule in RULES}
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.md" for name in PAGES}


@each(RUNBOOKS.values(), name=lambda page: page.name)
def test_a_runbook_has_its_four_sections_and_is_short(page: Page) -> None:
    """Its name, every severity of the alert before the first section, the four sections in their order, two screens."""
    severities = {rule["labels"]["severity"] for rule in RULES if page_of(rule) == page.name}
    opening = page.text.split("\n## ")[0].lower()

    assert page.headings[0] == (1, page.name)
    assert page.sections == SECTIONS
    assert set(re.findall(r"\b(?:critical|warning|info|none)\b", opening)) == severities
    assert page.text.count("\n") <= LINES_MAX


@every_page
def test_an_impact_claims_no_state_that_its_alert_does_not_check(page: Page) -> None:
    """A runbook that says "nothing hangs" is read while another alert says that something does."""
    _, _, impact = (FOLDER / f"{page.name}.md").read_text(encoding="utf-8").partition("## Impact")
    descriptions = [rule["annotations"]["description"] for rule in RULES if page_of(rule) == page.name]

    assert not UNCHECKED.findall(" ".join([impact.partition("## Diagnosis")[0], *descriptions]))


@every_page
def test_names_in_backticks_exist(page: Page) -> None:
    """Metrics, alerts, verdicts, reasons, settings, commands, options; what is Kafka's own is listed above."""
    known = vocabulary() | KAFKA_SETTINGS | KAFKA_WORDS | OTHER_WORDS | variables_of_the_common_page()

    assert [word for word in page.words if word not in known] == []


@every_page
def test_alerts_verdicts_and_issues_in_the_text_exist(page: Page) -> None:
    """Also without backticks."""
    assert set(re.findall(r"\bKafka(?:Transaction|Partitions)\w+", page.text)) <= ALERT_NAMES
    assert set(re.findall(r"KAFKA-\d+", page.text)) <= KNOWN_ISSUES
    assert set(re.findall(r"\bhanging_[a-z]\w+", page.text)) <= {verdict.label for verdict in Verdict}


@every_page
def test_metrics_in_commands_exist(page: Page) -> None:
    """A pattern that is given to grep finds what /metrics has."""
    names = {metric.name for metric in METRICS}
    for command in page.commands:
        for stem, alternatives in re.findall(r"(kafka_[a-z_]+)(?:\(([a-z_|]+)\))?", command.text):
            wanted = [f"{stem}{end}" for end in alternatives.split("|")] if alternatives else [stem]
            for name in wanted:
                # A prefix means the names that begin with it.
                assert any(known.startswith(name) for known in names), command


@every_page
def test_the_exporter_s_commands_are_written_in_full(page: Page) -> None:
    """Each parses, with whole option names; a variable is quoted where a client chose its value."""
    for command in page.commands:
        for part in command.text.split(" | "):
            if not part.startswith(f"{PROGRAM} "):
                continue
            words = shlex.split(part)
            numbers = re.sub(r"\$(PARTITION|START_OFFSET|BROKER|PRODUCER_ID)\b", "1", part)
            build_parser().parse_args(shlex.split(numbers)[1:])
            own = {option for action in parsers()[words[1]]._actions for option in action.option_strings}
            assert {word for word in words if word.startswith("--")} <= own, command
        assert not re.search(r'(?<!")\$(TRANSACTIONAL_ID|GROUP)', command.text), command


@pytest.mark.programs
@pytest.mark.parametrize(
    "line",
    re.findall(rf"^{PROGRAM}\(\).*$", commands_block(), re.MULTILINE),
    ids=lambda line: line.split()[2],
)
def test_a_page_s_commands_run_by_each_function_of_its_first_block(line: str, tmp_path: Path) -> None:
    """Pasted into bash, it passes every argument on unchanged, and the exporter's command line accepts the added ones."""
    for program in ("docker", PROGRAM):
        path = tmp_path / program
        path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        path.chmod(0o755)
    commands = [
        command.text for page in PAGES.values() for command in page.commands if command.text.startswith(f"{PROGRAM} ")
    ]
    lines = sorted({command.split(" | ")[0] for command in commands})
    variables = {**dict.fromkeys(variables_of_the_common_page(), "1"), "TRANSACTIONAL_ID": 'a "b"'}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    script = "\necho --end--\n".join([*exports, line, *lines])
    shell = subprocess.run(
        ["bash", "-c", f"PATH={tmp_path}:$PATH\n{script}"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    for written, ran in zip(lines, shell.stdout.split("--end--\n")[-len(lines) :], strict=True):
        _, _, words = ran.rpartition(f"{PROGRAM}\n")
        build_parser().parse_args(words.splitlines())
        assert ("--dry-run" in written) == ("--dry-run" in words)
        assert ("$TRANSACTIONAL_ID" in written) == ('a "b"' in words.splitlines())


@pytest.mark.programs
@pytest.mark.parametrize(
    ("properties", "bootstrap"),
    [(None, "page:9092"), ("ssl.protocol=TLSv1.3\n", "page:9092"), ("bootstrap.servers = own:9093\n", "own:9093")],
    ids=["no file", "a file without servers", "a file with servers"],
)
def test_the_line_for_a_login_leaves_no_variable_empty(properties: str | None, bootstrap: str, tmp_path: Path) -> None:
    """It comes after the line of the page, which has set the brokers."""
    if properties is not None:
        (tmp_path / "client.properties").write_text(properties)
    for line in re.findall(rf"^{PROGRAM}\(\).*$", commands_block(), re.MULTILINE):
        for before, shown in (("export BOOTSTRAP=page:9092", bootstrap), ("", bootstrap.replace("page:9092", ""))):
            script = f'{before}\n{line}\necho "$BOOTSTRAP"'
            shell = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=True, cwd=tmp_path)
            assert shell.stdout == f"{shown}\n"


def test_page_runbook_and_on_call_paste_in_one_order() -> None:
    """The line of the alert or page is first: in the chart's rules it defines the command, which a login defines again."""
    first, _, second = commands_block().partition("\n2. ")
    on_call = " ".join((ROOT / "docs" / "on-call.md").read_text().split())

    assert (
        "1. The line `variables` of the alert, if it has one, or that of the status page or of the incident." in first
    )
    assert "*Login line*: your login." in second
    assert (
        "Paste its line `export` first, then the runbook's line for a login if you need one, then its commands."
        in on_call
    )
    # Prometheus and other receivers show the annotations only.
    assert "without the example's Alertmanager template, that line is the annotation `variables`." in on_call
    assert "for the runbook's commands paste first, before its login line:" in what_to_paste(hanging(), "", None, "")


@every_page
def test_no_command_disables_a_safety(page: Page) -> None:
    """No `--force`, no `--yes`, nothing that deletes, no unclean election; what writes is shown as a dry run first."""
    for command in page.commands:
        assert not re.search(r"--force(?!-terminate)|--yes|--delete|--remove|unclean|--reset-offsets", command.text)
    writing = [c.text for c in page.commands if re.match(rf"{PROGRAM} (abort|complete|force-terminate) ", c.text)]
    for dry, real in zip(writing[::2], writing[1::2], strict=True):
        assert dry.replace(" --dry-run", "") == real
        assert "--dry-run" in dry


def test_a_check_that_shows_every_transaction_names_the_one_that_must_be_gone() -> None:
    """A busy partition always has a young transaction of another application: "no rows" never comes."""
    checks = {
        name: before
        for name, page in RUNBOOKS.items()
        for before in re.findall(
            r"([^\n]+)\n\n *```sh\n[^\n]*find-hanging --topic [^\n]* --all\n", page.text.partition("## Mitigation")[2]
        )
    }

    assert set(checks) == {f"KafkaTransaction{reason}" for reason in ("Inconclusive", "OwnerSilent", "ReplicaDiverged")}
    for name, before in checks.items():
        assert "row" in before, name
        assert "has your `START_OFFSET`" in before, name
        assert "ewer" in before, name


@every_page
def test_variables_are_explained(page: Page) -> None:
    """Each is in the table of the common page, and so are those of the alerts."""
    used = set(re.findall(r"\$([A-Z][A-Z_]*)", " ".join(command.text for command in page.commands)))
    lines = [rule["annotations"].get("variables", "") for rule in RULES]
    of_alerts = {name for line in lines for name in re.findall(r" ([A-Z_]+)=", line)}

    assert used <= variables_of_the_common_page()
    assert of_alerts <= variables_of_the_common_page()


@every_page
def test_links_lead_somewhere(page: Page) -> None:
    """To a file of the repository, and to a heading of it where one is named."""
    for link in page.links:
        path, _, anchor = link.partition("#")
        target = (FOLDER / path).resolve() if path else FOLDER / f"{page.name}.md"
        assert target.is_file(), link
        assert not anchor or anchor in PAGES[target.stem].anchors, link


@every_page
def test_only_shell_and_text_is_fenced(page: Page) -> None:
    """`text` is for what no test can run, and there is little of it; every script of Kafka is one that tests run."""
    assert page.languages <= {"sh", "text"}
    assert FIRST_BLOCK.sub("", page.text).count("```text") <= 2
    scripts = {script for command in page.commands for script in re.findall(r"kafka-[a-z-]+\.sh", command.text)}
    assert scripts <= set(KAFKA_TOOLS)


def test_every_page_with_commands_is_followed_to_its_end() -> None:
    """A test pastes all commands of each page: `reading` without sections fails where one is left over."""
    tests = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    followed = {name for text in tests for name in re.findall(r'\.reading\("(\w+)"\)', text)}

    with_commands = {name for name, page in PAGES.items() if page.commands}
    assert followed == with_commands, f"a test here must follow {with_commands - followed}, desk.reading(...)"


def test_the_reader_of_pages_misses_no_command() -> None:
    """As many commands as lines that begin like one: a fence that is read wrongly would go untested."""
    for page in PAGES.values():
        begun = re.findall(rf"^ *(?:{PROGRAM}|kafka-[a-z-]+\.sh|curl|tail|grep|echo) ", page.text, re.MULTILINE)
        in_text = [
            line for fence in re.findall(r"```text\n(.*?)```", page.text, re.DOTALL) for line in fence.split("\n")
        ]
        as_text = [
            line for line in in_text if re.match(rf" *(?:{PROGRAM}|kafka-[a-z-]+\.sh|curl|tail|grep|echo) ", line)
        ]
        assert len(page.commands) == len(begun) - len(as_text), page.name
