"""Declares all commands and options for argparse. Options of `kafka-transactions.sh` are accepted under their own names."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from exporter import __version__
from exporter.config import values
from exporter.config.loading import flag_name
from exporter.config.settings import SETTINGS
from exporter.evaluation.verdicts import Verdict

PROGRAM = "kafka-transaction-exporter"
STATES, VERDICT, FILE, DIRECTORY = "STATE[,...]", "VERDICT", "FILE", "DIRECTORY"
"""Placeholders of values in the help; `completion` completes values by them."""
INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
INTERVAL_MS_MIN = 100
_SECRET_FLAGS = frozenset(flag_name(setting.name) for setting in SETTINGS if setting.is_secret)


class _Parser(argparse.ArgumentParser):
    """Accepts full option names only: a later release may add an option that a short one would also match.

    argparse would take `--kafka.sasl.password=...`, which is not an option, for `--kafka.sasl.password-file`. An error
    shows only the name of an unknown option, because its value may be a secret.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{**named, "allow_abbrev": False})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Exits with status 2 and names the unknown arguments."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            names = [it.partition("=")[0] for it in unknown if it.startswith("-")] or unknown
            hint = "; secrets have no flag: name a file or a variable" if _SECRET_FLAGS.intersection(names) else ""
            self.error(f"unrecognized arguments: {' '.join(names)}{hint}")
        return options


def build_parser() -> argparse.ArgumentParser:
    shared = _Parser(add_help=False)
    add_connection(shared)
    add_settings(shared)
    parser = _Parser(prog=PROGRAM, description="Finds hanging Kafka transactions and proves them.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    add_connection(parser)
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        parents = [shared] if command.needs_settings else []
        command.add_options(parsers.add_parser(name, aliases=command.aliases, parents=parents, help=command.help))
    return parser


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Options that are accepted before the command as well, because Kafka's own tool has them there."""
    parser.add_argument(
        "--bootstrap-server",
        dest="setting:kafka.bootstrap.servers",
        metavar="HOST:PORT[,...]",
        default=argparse.SUPPRESS,
        help="the same as --kafka.bootstrap.servers",
    )
    parser.add_argument(
        "--command-config",
        metavar=FILE,
        default=argparse.SUPPRESS,
        help="properties file of a Java client, as for kafka-transactions.sh",
    )
    parser.add_argument(
        "--config.file", dest="config_file", metavar=FILE, default=argparse.SUPPRESS, help="YAML file with settings"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """One flag for each setting that is not a secret."""
    table = parser.add_argument_group(
        "settings", "each is also a YAML key and an environment variable: docs/configuration.md"
    )
    for setting in SETTINGS:
        if not setting.is_secret:
            default = "" if setting.default is None else f" Default: {setting.default}."
            table.add_argument(
                flag_name(setting.name),
                dest=f"setting:{setting.name}",
                metavar="VALUE",
                default=argparse.SUPPRESS,
                help=setting.help.replace("%", "%%") + default,
            )


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Two settings also have the flags that Prometheus' own exporters use."""
    for flag, name in (("--web.listen-address", "listen_address"), ("--web.config.file", "web_config_file")):
        parser.add_argument(
            flag,
            dest=f"setting:publish.{name}",
            metavar="VALUE",
            default=argparse.SUPPRESS,
            help=f"the same as {flag_name('publish.' + name)}",
        )
    parser.add_argument(
        "--engine",
        choices=("embedded", "spark"),
        default="embedded",
        help="spark: runs cycles as Spark jobs, for many clusters. Default: embedded",
    )
    parser.add_argument(
        "--clusters", metavar=FILE, help="clusters of a fleet, for --engine=spark; by default the one in the settings"
    )
    add_spark(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master, such as local[*]; leave it out with spark-submit, which sets it",
    )
    parser.add_argument("--memory", default="1g", metavar="SIZE", help="memory of Spark's process. Default: 1g")
    parser.add_argument(
        "--temporary",
        default="/tmp",  # noqa: S108
        metavar=DIRECTORY,
        help="directory for Spark's temporary files. Default: /tmp",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("check", "dump"),
        help="check: print all errors with their place. dump: print every setting and its origin as YAML",
    )


def add_once(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("table", "json", "prometheus"), default="table", help="default: table")


def add_find_hanging(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=False)
    parser.add_argument(
        "--broker-id",
        "--broker",
        type=number(0, INT32_MAX),
        metavar="ID",
        help="only partitions with a replica on this broker",
    )
    parser.add_argument(
        "--max-transaction-timeout",
        type=number(0, INT32_MAX),
        default=0,
        metavar="MINUTES",
        help="leave out suspects that are younger than this and not proved hanging; no verdict depends on it. Default: 0",
    )
    parser.add_argument(
        "--stuck-after",
        type=duration,
        default="30s",
        metavar="DURATION",
        help="wait until a completing transaction is done or stuck for this long; 0 does not wait. Default: 30s",
    )
    parser.add_argument(
        "--overdue-slack",
        type=duration,
        default="10s",
        metavar="DURATION",
        help="a transaction is overdue this long after its own timeout. Default: 10s, a coordinator's scan interval",
    )
    add_find_hanging_output(parser)


def add_find_hanging_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="print every open transaction, not only suspects")
    parser.add_argument(
        "--states",
        metavar=STATES,
        help="only transactions in these states at their coordinator; - for those without a coordinator",
    )
    parser.add_argument(
        "--format",
        choices=("table", "tsv", "csv", "json"),
        help="default: table on a terminal, elsewhere tsv, whose first eight columns are kafka-transactions.sh's",
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with 3 when a transaction is proved hanging")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=interval,
        const="5s",
        metavar="INTERVAL",
        help="repeat until Ctrl-C. Default: every 5s",
    )
    parser.add_argument(
        "--plan-file", metavar=FILE, help="write proved hanging transactions into a new FILE, for abort --plan-file"
    )


def add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--duration-filter",
        type=number(-1, INT64_MAX),
        metavar="MS",
        help="only active transactions that have run for longer than this",
    )
    parser.add_argument(
        "--transactional-id-pattern", metavar="REGEX", help="only transactional ids that match it fully"
    )
    parser.add_argument("--states", metavar=STATES, help="only transactions in these states, such as Ongoing")
    add_format(parser)


def add_describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transactional-id", required=True, metavar="ID")
    add_format(parser)


def add_describe_producers(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=True)
    parser.add_argument(
        "--broker-id",
        "--broker",
        type=number(0, INT32_MAX),
        metavar="ID",
        help="read from this replica instead of the leader",
    )
    add_format(parser)


def add_abort(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=False)
    which = parser.add_argument_group("one transaction", "by its start offset, or by its producer id and both epochs")
    which.add_argument("--start-offset", type=number(0, INT64_MAX), metavar="OFFSET")
    which.add_argument("--producer-id", type=number(0, INT64_MAX), metavar="ID")
    which.add_argument("--producer-epoch", type=number(0, INT16_MAX), metavar="EPOCH")
    which.add_argument("--coordinator-epoch", type=number(-1, INT32_MAX), metavar="EPOCH")
    many = parser.add_argument_group("many transactions")
    many.add_argument("--plan-file", metavar=FILE, help="transactions in FILE, written by find-hanging --plan-file")
    many.add_argument(
        "--max-aborts", type=number(1, INT32_MAX), metavar="N", help="refuse a longer plan file. Default: 10"
    )
    parser.add_argument(
        "--force",
        metavar=VERDICT,
        type=verdict,
        help="abort although the hang is not proved or the outcome was a commit: type the verdict that the plan shows",
    )
    parser.add_argument(
        "--accept-data-loss", action="store_true", help="needed with --force: committed records may be lost"
    )
    add_consent(parser)


def add_complete(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=True)
    parser.add_argument("--start-offset", type=number(0, INT64_MAX), required=True, metavar="OFFSET")
    parser.add_argument(
        "--stuck-after",
        type=duration,
        default="30s",
        metavar="DURATION",
        help="time that it must be completing. Default: 30s",
    )
    add_consent(parser)


def add_force_terminate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transactional-id", "--transactionalId", dest="transactional_id", required=True, metavar="ID")
    add_consent(parser)


def add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job",
        choices=("transactions", "incidents", "outcomes", "baselines", "report", "compact", "run", "transaction-log"),
        help="run: all jobs but transaction-log. transaction-log: reads the transaction log; only it uses the settings",
    )
    parser.add_argument(
        "--history", metavar=DIRECTORY, help="history.directory of the exporter; required except for transaction-log"
    )
    parser.add_argument("--tables", required=True, metavar=DIRECTORY, help="directory of the tables, read and written")
    parser.add_argument("--every", type=interval, metavar="DURATION", help="repeat at this interval until Ctrl-C")
    parser.add_argument("--groups", metavar="JSON", help="the value of transaction_log.groups")
    parser.add_argument(
        "--jars", metavar=DIRECTORY, help="jars of Spark's Kafka source, for transaction-log; by default from Maven"
    )
    parser.add_argument(
        "--retention",
        type=duration,
        default="90d",
        metavar="DURATION",
        help="age at which rows of the tables are removed. Default: 90d",
    )
    add_spark(parser)


def add_scope(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--topic", required=required, metavar="TOPIC")
    parser.add_argument("--partition", type=number(0, INT32_MAX), required=required, metavar="N")


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table", help="default: table")


def add_consent(parser: argparse.ArgumentParser) -> None:
    """The operator's consent to a write."""
    parser.add_argument("--dry-run", action="store_true", help="print the plan and write nothing")
    parser.add_argument("--yes", action="store_true", help="write without a confirmation")
    parser.add_argument(
        "--audit-log",
        metavar=FILE,
        help="file to which each step is appended as a line of JSON. Default: in the state directory",
    )


def number(minimum: int, maximum: int) -> Callable[[str], int]:
    """Parses a number that fits into the field of Kafka's protocol."""
    within = values.whole_number(minimum, maximum)

    def parse(text: str) -> int:
        try:
            return int(within(text))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def interval(text: str) -> int:
    """In milliseconds; shorter intervals would load the brokers too much."""
    milliseconds = duration(text)
    if milliseconds < INTERVAL_MS_MIN:
        raise argparse.ArgumentTypeError(f"must be {INTERVAL_MS_MIN} ms at least")
    return milliseconds


def duration(text: str) -> int:
    """In milliseconds."""
    try:
        return values.duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def verdict(text: str) -> Verdict:
    for known in Verdict:
        if known.label == text:
            return known
    raise argparse.ArgumentTypeError("must be a verdict: " + ", ".join(known.label for known in Verdict))


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line."""

    module: str
    """In exporter/commands, imported when it runs: `once` must not pay for the web server."""
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    aliases: tuple[str, ...] = ()
    writes: bool = False
    """True if an output that nobody reads is a failure: the operator must know what was written."""
    needs_settings: Callable[[argparse.Namespace], bool] | None = lambda _: True
    """False for a reader of files, which needs no broker's name; None for a command that takes no settings."""


_COMMANDS: Final = {
    "serve": Command("serve", "watch the cluster and serve /metrics and a status page", add_serve),
    "once": Command("once", "run one cycle and print it", add_once),
    "find-hanging": Command(
        "find_hanging", "list suspects: transactions that need attention, with evidence", add_find_hanging
    ),
    "list": Command("list_transactions", "list transactions as their coordinators do", add_list),
    "describe": Command("describe", "describe one transactional id", add_describe),
    "describe-producers": Command("describe_producers", "list every producer of one partition", add_describe_producers),
    "abort": Command("abort", "write ABORT markers for hanging transactions", add_abort, writes=True),
    "complete": Command("complete", "write the missing marker of a stuck COMMIT or ABORT", add_complete, writes=True),
    "force-terminate": Command(
        "force_terminate",
        "have the coordinator abort the ongoing transaction of a transactional id",
        add_force_terminate,
        aliases=("forceTerminateTransaction",),
        writes=True,
    ),
    "config": Command("config", "check or print the settings", add_config),
    "completion": Command("completion", "print a shell's completion script", add_completion, needs_settings=None),
    "pipeline": Command(
        "pipeline",
        "make tables, incidents, baselines and a report from the history, with Spark",
        add_pipeline,
        needs_settings=lambda options: bool(options.job == "transaction-log"),
    ),
}
COMMANDS: Final = {name: command for main, command in _COMMANDS.items() for name in (main, *command.aliases)}
"""By name and by alias."""
