"""Declares all commands for argparse: help, examples, exit statuses, and the options that they share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter import PROGRAM, __version__
from exporter.artifacts import PROJECT
from exporter.commands import offline_options, options
from exporter.commands.parser import HelpSettings, OptionParser
from exporter.config.loading import flag_name
from exporter.config.settings import SETTINGS

SHORT: Final = "ktx"  # the same program
WHERE_MORE_IS: Final = f"More: {PROJECT}/blob/main/docs/commands.md"
SETTINGS_HELP: Final = "--help-settings shows the settings that are options too"


def build_parser() -> argparse.ArgumentParser:
    shared = OptionParser(add_help=False)
    add_settings(shared, add_connection(shared))
    parser = OptionParser(
        prog=PROGRAM,
        description=f"Finds hanging Kafka transactions and proves them.\n\n{_groups()}",
        epilog=f"{SHORT} help COMMAND shows its options.\n{WHERE_MORE_IS}",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _add_help_settings(add_connection(parser))
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for name, command in _COMMANDS.items():
        added = parsers.add_parser(
            name,
            aliases=command.aliases,
            parents=[shared] if command.needs_settings else [],
            help=command.help,
            usage=f"{PROGRAM} {name} {command.usage}",
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog=_epilog(command),
        )
        command.add_options(added)
        if command.has_cluster_options and command.needs_settings is not None:
            options.add_fleet(added)
        if command.add_last is not None:
            command.add_last(added)
        for spelled in (name, *command.aliases):
            parser.commands[spelled] = added
    return parser


def _groups() -> str:
    """The commands by what an operator wants."""
    lines = []
    for group in Group:
        lines.append(f"{group.value}:")
        lines += [f"  {name:<20} {command.help}" for name, command in _COMMANDS.items() if command.group is group]
    return "\n".join(lines)


def _epilog(command: Command) -> str:
    """Examples, exit statuses, and where the rest is."""
    examples = "".join(f"  {SHORT} {example}\n" for example in command.examples)
    more = f"{WHERE_MORE_IS}\n{SETTINGS_HELP}." if command.needs_settings else WHERE_MORE_IS
    return f"examples:\n{examples}\nexit status: {command.statuses}\n{more}"


def add_connection(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Options that are accepted before the command as well, because Kafka's own tool has them there."""
    group = parser.add_argument_group("connection and settings")
    group.add_argument(
        "--bootstrap-server",
        dest="setting:kafka.bootstrap.servers",
        metavar="HOST:PORT",
        default=argparse.SUPPRESS,
        help="one or more, with commas; the same as --kafka.bootstrap.servers",
    )
    group.add_argument(
        "--command-config",
        metavar=options.FILE,
        default=argparse.SUPPRESS,
        help="a client's properties file, Java's or librdkafka's",
    )
    group.add_argument(
        "--config.file",
        dest="config_file",
        metavar=options.FILE,
        default=argparse.SUPPRESS,
        help="YAML file with settings",
    )
    return group


def add_settings(parser: argparse.ArgumentParser, group: argparse._ArgumentGroup) -> None:
    """One flag for each setting that is not a secret; `--help-settings` shows them."""
    for setting in SETTINGS:
        if not setting.is_secret:
            parser.add_argument(
                flag_name(setting.name),
                dest=f"setting:{setting.name}",
                metavar="VALUE",
                default=argparse.SUPPRESS,
                help=argparse.SUPPRESS,
            )
    _add_help_settings(group)


def _add_help_settings(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--help-settings",
        action=HelpSettings,
        default=argparse.SUPPRESS,
        help="show the options that are settings, and exit",
    )


ANSWERED: Final = "0 success, 1 failed, 2 wrong usage."
READS: Final = "0 success, 1 failed, 2 wrong usage, 4 incomplete (it says what is missing)."
WRITES: Final = "0 success, 1 failed, 2 wrong usage, 5 refused, nothing was written."


class Group(Enum):
    """Headings of the help."""

    SEE = "see what is open, and why"
    CLEAR = "clear it (writes to Kafka)"
    RUN = "run the exporter"
    OFFLINE = "without a broker"


@dataclass(frozen=True, slots=True)
class Command:
    module: str
    """Module in exporter/commands, imported when the command runs: `once` must not pay for the web server."""
    group: Group
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    add_last: Callable[[argparse.ArgumentParser], None] | None = None
    """Options that few need, at the end of the help."""
    aliases: tuple[str, ...] = ()
    writes: bool = False
    """True if an output that nobody reads is a failure: the operator must know what was written."""
    reads_clusters: bool = False
    """True if it reads all clusters of a fleet; others need --cluster to choose one."""
    reads_in_part: bool = False
    """True if clusters whose credentials cannot be used are failures of their own, and the others are read."""
    has_cluster_options: bool = True
    """False if the command has options of its own for that."""
    needs_settings: Callable[[argparse.Namespace], bool] | None = lambda _: True
    """False for a reader of files, which needs no broker's name; None for a command that takes no settings."""
    needs_only_publish: bool = False
    """True if it uses the settings of the web server alone: mistakes in others do not stop it."""
    usage: str = "[options]"
    examples: tuple[str, ...] = ()
    statuses: str = ANSWERED
    without_settings: str = ""
    """A sentence after what is wrong with the settings."""
    is_about_exporter: bool = False
    """True if it needs the settings of `serve`, not a client's."""


_OF_SERVE: Final = (
    "this command reads what `serve` keeps on this machine: give it the settings of `serve`, as --config.file FILE"
)
_COMMANDS: Final = {
    "serve": Command(
        "serve",
        Group.RUN,
        "watch clusters and serve /metrics and a status page",
        options.add_web_flags,
        add_last=options.add_spark_engine,
        reads_clusters=True,
        examples=("serve --bootstrap-server kafka:9092", "serve --config.file config.yaml"),
    ),
    "once": Command(
        "once",
        Group.SEE,
        "run one cycle and print it",
        options.add_once,
        reads_clusters=True,
        reads_in_part=True,
        examples=("once --bootstrap-server kafka:9092",),
        statuses=READS,
    ),
    "doctor": Command(
        "doctor",
        Group.RUN,
        "say whether a hang could be proved, and which grants are missing",
        options.add_doctor,
        reads_clusters=True,
        reads_in_part=True,
        has_cluster_options=False,
        examples=(
            "doctor --bootstrap-server kafka:9092",
            "doctor --config.file config.yaml --prometheus http://prometheus:9090",
        ),
        statuses="0 every hang could be proved, 1 no broker responds, 2 wrong usage, 4 something is missing.",
    ),
    "why": Command(
        "why",
        Group.SEE,
        "say why consumers or a producer stand still, and until when",
        options.add_why,
        examples=("why --group order-emails", "why --topic orders --partition 3"),
        statuses=READS.replace(
            ", 4",
            ",\n3 with --exit-code where a suspect holds it, a live transaction for longer than blocked.after, or its\n"
            "coordinator is stuck, 4",
        ),
    ),
    "find-hanging": Command(
        "find_hanging",
        Group.SEE,
        "list suspects: transactions that need attention, with evidence",
        options.add_find_hanging,
        reads_clusters=True,
        reads_in_part=True,
        examples=(
            "find-hanging --bootstrap-server kafka:9092",
            "find-hanging --bootstrap-server kafka:9092 --topic orders --watch",
        ),
        statuses=READS.replace(", 4", ",\n3 with --exit-code where a hang is proved, 4"),
    ),
    "list": Command(
        "list_transactions",
        Group.SEE,
        "list transactions as their coordinators do",
        options.add_list,
        reads_clusters=True,
        reads_in_part=True,
        examples=("list --bootstrap-server kafka:9092 --states Ongoing",),
        statuses=READS,
    ),
    "describe": Command(
        "describe",
        Group.SEE,
        "describe one transactional id",
        options.add_describe,
        usage="--transactional-id ID [options]",
        examples=("describe --bootstrap-server kafka:9092 --transactional-id orders-7",),
    ),
    "describe-producers": Command(
        "describe_producers",
        Group.SEE,
        "list every producer of one partition",
        options.add_describe_producers,
        usage="--topic TOPIC --partition NUMBER [options]",
        examples=("describe-producers --bootstrap-server kafka:9092 --topic orders --partition 3",),
    ),
    "explain": Command(
        "explain",
        Group.SEE,
        "say why a transaction hangs, or hung, and what prevents the next one",
        options.add_explain,
        usage="(--topic TOPIC --partition NUMBER --start-offset OFFSET | --incident ID) [options]",
        examples=(
            "explain --bootstrap-server kafka:9092 --topic orders --partition 3 --start-offset 1234",
            "explain --bootstrap-server kafka:9092 --incident 20270115T080000123Z --format markdown",
        ),
        statuses=READS,
    ),
    "abort": Command(
        "abort",
        Group.CLEAR,
        "write ABORT markers for hanging transactions; it cannot be undone",
        options.add_abort,
        writes=True,
        usage="(--topic TOPIC --partition NUMBER --start-offset OFFSET | --plan-file FILE) [options]",
        examples=("abort --bootstrap-server kafka:9092 --topic orders --partition 3 --start-offset 1234 --dry-run",),
        statuses=WRITES,
    ),
    "complete": Command(
        "complete",
        Group.CLEAR,
        "write the missing marker of a stuck COMMIT or ABORT; it cannot be undone",
        options.add_complete,
        writes=True,
        usage="--topic TOPIC --partition NUMBER --start-offset OFFSET [options]",
        examples=("complete --bootstrap-server kafka:9092 --topic orders --partition 3 --start-offset 1234 --dry-run",),
        statuses=WRITES,
    ),
    "force-terminate": Command(
        "force_terminate",
        Group.CLEAR,
        "have the coordinator abort the ongoing transaction of a transactional id",
        options.add_force_terminate,
        aliases=("forceTerminateTransaction",),
        writes=True,
        usage="--transactional-id ID [options]",
        examples=("force-terminate --bootstrap-server kafka:9092 --transactional-id orders-7 --dry-run",),
        statuses=WRITES,
    ),
    "timeouts": Command(
        "timeouts",
        Group.SEE,
        "list transactions that their coordinators timed out or fenced",
        options.add_timeouts,
        examples=("timeouts --bootstrap-server kafka:9092 --since 2h",),
        statuses=READS,
    ),
    "incident": Command(
        "incident",
        Group.RUN,
        "print an incident that `serve` on this machine has followed",
        options.add_incident,
        usage="[ID] [options]",
        examples=("incident", "incident 20270115T080000123Z --format markdown"),
        without_settings=_OF_SERVE,
        is_about_exporter=True,
    ),
    "capsule": Command(
        "capsule",
        Group.RUN,
        "write the recorded cycles of an incident into a file, with other names, to send it",
        offline_options.add_capsule,
        usage="ID [options]",
        examples=("capsule 20270115T080000123Z --output capsule.zip",),
        statuses=READS,
        without_settings=_OF_SERVE,
        is_about_exporter=True,
    ),
    "get": Command(
        "get",
        Group.RUN,
        "print /metrics or another page of the running exporter",
        options.add_get,
        needs_only_publish=True,
        usage="[PATH] [options]",
        examples=("get /-/ready", "get /metrics --url http://exporter:9814"),
        is_about_exporter=True,
    ),
    "config": Command(
        "config",
        Group.OFFLINE,
        "check or print the settings",
        options.add_config,
        reads_clusters=True,
        usage="(check | dump) [options]",
        examples=("config check --config.file config.yaml",),
        is_about_exporter=True,
    ),
    "replay": Command(
        "replay",
        Group.OFFLINE,
        "run the cycles of a capsule again, without a broker",
        offline_options.add_replay,
        needs_settings=None,
        usage="FILE [options]",
        examples=("replay capsule.zip --diff", "replay capsule.zip --serve"),
        statuses="0 the recorded result, 1 failed, 2 wrong usage, 4 another result (it says what differs).",
    ),
    "rules": Command(
        "rules",
        Group.OFFLINE,
        "print the alerting rules for Prometheus",
        offline_options.add_rules,
        needs_settings=None,
        needs_only_publish=True,
        examples=(
            "rules --config.file /etc/kafka-transaction-exporter/config.yaml > kafka-transactions.yaml",
            "rules --format prometheus-rule --threshold fresh_cycles=7",
        ),
    ),
    "dashboards": Command(
        "dashboards",
        Group.OFFLINE,
        "print or write the dashboards for Grafana",
        offline_options.add_dashboards,
        needs_settings=None,
        usage="(NAME | --output DIRECTORY)",
        examples=("dashboards overview > overview.json", "dashboards --output dashboards"),
    ),
    "completion": Command(
        "completion",
        Group.OFFLINE,
        "print a shell's completion script",
        offline_options.add_completion,
        needs_settings=None,
        usage="(bash | zsh | fish)",
        examples=("completion bash > /etc/bash_completion.d/kafka-transaction-exporter",),
    ),
    "pipeline": Command(
        "pipeline",
        Group.OFFLINE,
        "make tables, incidents, baselines and a report from the history, with Spark",
        offline_options.add_pipeline,
        needs_settings=lambda given: given.job in offline_options.JOBS_WITH_BROKERS,
        usage="JOB --tables DIRECTORY [options]",
        examples=(
            "pipeline run --history history --tables tables",
            "pipeline audit --tables tables --bootstrap-server localhost:9092",
        ),
        statuses="0 done, 1 failed, 2 wrong usage; of audit 3 a log contradicts a decision, 4 partitions are "
        "unread, or nothing was compared: transaction_log is behind.",
    ),
}
COMMANDS: Final = {name: command for main, command in _COMMANDS.items() for name in (main, *command.aliases)}
"""The commands by name and by alias."""
