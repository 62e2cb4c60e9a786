"""The whole command line, as argparse knows it. Options of `kafka-transactions.sh` are accepted under their own names."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

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
    """Options are written in full: a shortened one may mean another when a release adds some.

    `--kafka.sasl.password=...`, which is no option, would be taken for `--kafka.sasl.password-file`. What is not known is
    told by its name alone, as a secret may stand behind it.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{**named, "allow_abbrev": False})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Exits with status 2 and a sentence for what is not known."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            names = [it.partition("=")[0] for it in unknown if it.startswith("-")] or unknown
            hint = "; secrets have no flag: name a file or a variable" if _SECRET_FLAGS.intersection(names) else ""
            self.error(f"unrecognized arguments: {' '.join(names)}{hint}")
        return options


def build_parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    shared = _Parser(add_help=False)
    add_connection(shared)
    add_settings(shared)
    parser = _Parser(prog=PROGRAM, description="Finds Kafka transactions that will never end, and says why.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    add_connection(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_serve(
        commands.add_parser("serve", parents=[shared], help="watch the cluster and serve /metrics and a status page")
    )
    add_once(commands.add_parser("once", parents=[shared], help="one full cycle, printed"))
    add_find_hanging(
        commands.add_parser(
            "find-hanging", parents=[shared], help="transactions that hang or want a look, with evidence"
        )
    )
    add_list(commands.add_parser("list", parents=[shared], help="transactions as their coordinators list them"))
    add_describe(commands.add_parser("describe", parents=[shared], help="one transactional id"))
    add_describe_producers(
        commands.add_parser("describe-producers", parents=[shared], help="every producer of one partition")
    )
    add_abort(commands.add_parser("abort", parents=[shared], help="close hanging transactions with an ABORT marker"))
    add_complete(
        commands.add_parser("complete", parents=[shared], help="write the marker that a stuck coordinator has decided")
    )
    add_force_terminate(
        commands.add_parser(
            "force-terminate",
            aliases=["forceTerminateTransaction"],
            parents=[shared],
            help="have the coordinator abort what a transactional id has ongoing",
        )
    )
    add_config(commands.add_parser("config", parents=[shared], help="the settings, checked or shown"))
    add_completion(commands.add_parser("completion", help="a script that completes commands and options in a shell"))
    add_pipeline(
        commands.add_parser(
            "pipeline", parents=[shared], help="tables, incidents, baselines and a report of the history, by Spark"
        )
    )
    return parser


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Options that stand before the command as well, as Kafka's own tool wants them."""
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
        help="a Java client's properties file, as kafka-transactions.sh takes it",
    )
    parser.add_argument(
        "--config.file", dest="config_file", metavar=FILE, default=argparse.SUPPRESS, help="YAML file with settings"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """A flag for each setting that is no secret."""
    table = parser.add_argument_group(
        "settings", "each also as YAML key and environment variable: docs/configuration.md"
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
    """`serve`: the names that Prometheus' own exporters have for two of the settings."""
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
        help="spark: cycles are Spark jobs, for many clusters. Default: embedded",
    )
    parser.add_argument(
        "--clusters", metavar=FILE, help="the clusters of a fleet, for --engine=spark; else the one of the settings"
    )
    add_spark(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Where Spark runs."""
    parser.add_argument(
        "--master", metavar="URL", help="as Spark has it, such as local[*]; spark-submit's own when left out there"
    )
    parser.add_argument("--memory", default="1g", metavar="SIZE", help="of Spark's process. Default: 1g")
    parser.add_argument("--temporary", default="/tmp", metavar=DIRECTORY, help="for Spark's own files. Default: /tmp")  # noqa: S108


def add_config(parser: argparse.ArgumentParser) -> None:
    """`config check` and `config dump`."""
    parser.add_argument(
        "action",
        choices=("check", "dump"),
        help="check: say what is wrong, with its place. dump: every setting as YAML, with where it came from",
    )


def add_once(parser: argparse.ArgumentParser) -> None:
    """`once`."""
    parser.add_argument("--format", choices=("table", "json", "prometheus"), default="table", help="default: table")
    parser.add_argument(
        "--repeat",
        type=number(1, INT32_MAX),
        default=1,
        metavar="N",
        help="run N cycles in this process, print the last",
    )
    parser.add_argument(
        "--timings", choices=("json",), help="print the seconds of each phase of each cycle instead of the transactions"
    )


def add_find_hanging(parser: argparse.ArgumentParser) -> None:
    """`find-hanging`."""
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
        help="leave out suspects that are younger and not proved hanging; no verdict depends on it. Default: 0",
    )
    parser.add_argument(
        "--stuck-after",
        type=duration,
        default="30s",
        metavar="DURATION",
        help="read a transaction that is completing again until it is stuck for so long; 0 does not wait. Default: 30s",
    )
    parser.add_argument(
        "--overdue-slack",
        type=duration,
        default="10s",
        metavar="DURATION",
        help="how far past its own time-out a transaction is overdue. Default: 10s, a coordinator's scan interval",
    )
    add_find_hanging_output(parser)


def add_find_hanging_output(parser: argparse.ArgumentParser) -> None:
    """What `find-hanging` prints, how often, and where else it goes."""
    parser.add_argument("--all", action="store_true", help="print every open transaction, not only suspects")
    parser.add_argument(
        "--states",
        metavar=STATES,
        help="only transactions that their coordinator has in these states; - where no coordinator names one",
    )
    add_format(parser)
    parser.add_argument("--exit-code", action="store_true", help="status 3 when something is proved to hang")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=interval,
        const="5s",
        metavar="INTERVAL",
        help="look again and again until Ctrl-C. Default: every 5s",
    )
    parser.add_argument(
        "--plan-file", metavar=FILE, help="write those that are proved to hang into a new FILE, for abort --plan-file"
    )


def add_list(parser: argparse.ArgumentParser) -> None:
    """`list`."""
    parser.add_argument(
        "--duration-filter",
        type=number(-1, INT64_MAX),
        metavar="MS",
        help="only active transactions that run for longer than this",
    )
    parser.add_argument("--transactional-id-pattern", metavar="REGEX", help="only ids that match it as a whole")
    parser.add_argument("--states", metavar=STATES, help="only transactions in these states, such as Ongoing")
    add_format(parser)


def add_describe(parser: argparse.ArgumentParser) -> None:
    """`describe`."""
    parser.add_argument("--transactional-id", required=True, metavar="ID")
    add_format(parser)


def add_describe_producers(parser: argparse.ArgumentParser) -> None:
    """`describe-producers`."""
    add_scope(parser, required=True)
    parser.add_argument(
        "--broker-id",
        "--broker",
        type=number(0, INT32_MAX),
        metavar="ID",
        help="ask this replica instead of the leader",
    )
    add_format(parser)


def add_abort(parser: argparse.ArgumentParser) -> None:
    """`abort`."""
    add_scope(parser, required=False)
    which = parser.add_argument_group("which transaction", "its start offset, or its producer with both epochs")
    which.add_argument("--start-offset", type=number(0, INT64_MAX), metavar="OFFSET")
    which.add_argument("--producer-id", type=number(0, INT64_MAX), metavar="ID")
    which.add_argument("--producer-epoch", type=number(0, INT16_MAX), metavar="EPOCH")
    which.add_argument("--coordinator-epoch", type=number(-1, INT32_MAX), metavar="EPOCH")
    many = parser.add_argument_group("many transactions")
    many.add_argument("--plan-file", metavar=FILE, help="those that find-hanging --plan-file has written into FILE")
    many.add_argument(
        "--max-aborts", type=number(1, INT32_MAX), metavar="N", help="refuse a plan file with more of them. Default: 10"
    )
    parser.add_argument(
        "--force",
        metavar=VERDICT,
        type=verdict,
        help="write although it is not proved, or its outcome was a commit: type the verdict out",
    )
    add_consent(parser)


def add_complete(parser: argparse.ArgumentParser) -> None:
    """`complete`."""
    add_scope(parser, required=True)
    parser.add_argument("--start-offset", type=number(0, INT64_MAX), required=True, metavar="OFFSET")
    parser.add_argument(
        "--stuck-after", type=duration, default="30s", metavar="DURATION", help="how long it must be seen completing"
    )
    add_consent(parser)


def add_force_terminate(parser: argparse.ArgumentParser) -> None:
    """`force-terminate`."""
    parser.add_argument("--transactional-id", "--transactionalId", dest="transactional_id", required=True, metavar="ID")
    add_consent(parser)


def add_completion(parser: argparse.ArgumentParser) -> None:
    """`completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """`pipeline`."""
    parser.add_argument(
        "job",
        choices=("transactions", "incidents", "outcomes", "baselines", "report", "compact", "run", "transaction-log"),
        help="run: all but the last, which reads the coordinators' log and alone takes settings",
    )
    parser.add_argument(
        "--history", metavar=DIRECTORY, help="what the daemon writes: history.directory; but for the log"
    )
    parser.add_argument("--tables", required=True, metavar=DIRECTORY, help="where the tables are, and are made")
    parser.add_argument("--every", type=interval, metavar="DURATION", help="again and again, such as 1h, until Ctrl-C")
    parser.add_argument("--groups", metavar="JSON", help="as transaction_log.groups has them")
    parser.add_argument(
        "--jars", metavar=DIRECTORY, help="of Spark's Kafka source, for the log; else Maven fetches them"
    )
    parser.add_argument(
        "--retention", type=duration, default="90d", metavar="DURATION", help="how long tables are kept. Default: 90d"
    )
    add_spark(parser)


def add_scope(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Topic and partition."""
    parser.add_argument("--topic", required=required, metavar="TOPIC")
    parser.add_argument("--partition", type=number(0, INT32_MAX), required=required, metavar="N")


def add_format(parser: argparse.ArgumentParser) -> None:
    """How rows are printed."""
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table", help="default: table")


def add_consent(parser: argparse.ArgumentParser) -> None:
    """How a person agrees to something that writes."""
    parser.add_argument("--dry-run", action="store_true", help="show the plan, write nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--audit-log",
        metavar=FILE,
        help="where each step is appended as a line of JSON. Default: in the state directory",
    )


def number(minimum: int, maximum: int) -> Callable[[str], int]:
    """From `minimum` to `maximum`, as Kafka's protocol can carry it."""
    within = values.whole_number(minimum, maximum)

    def parse(text: str) -> int:
        try:
            return int(within(text))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def interval(text: str) -> int:
    """In milliseconds, and not shorter than a broker's leader should be asked at."""
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
    """A verdict by its published name."""
    for known in Verdict:
        if known.label == text:
            return known
    raise argparse.ArgumentTypeError("must be a verdict: " + ", ".join(known.label for known in Verdict))
