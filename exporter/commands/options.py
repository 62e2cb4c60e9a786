"""Declares the options of each command. Options of `kafka-transactions.sh` are accepted under their own names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from exporter.commands.option_types import (
    KNOWN_STATES,
    UNKNOWN,
    duration,
    interval,
    java_size,
    name_text,
    number,
    pattern,
    positive_duration,
    states,
    verdict,
    web_address,
    writable_directory,
)
from exporter.config.loading import flag_name
from exporter.primitives import INT16_MAX, INT32_MAX, INT64_MAX

STATES: Final = "STATE[,...]"
VERDICT: Final = "VERDICT"
FILE: Final = "FILE"
DIRECTORY: Final = "DIRECTORY"
"""Placeholders of values in the help; `completion` completes values by them."""
SPARK_FLAGS: Final = ("--master", "--memory", "--temporary")
"""Flags of `add_spark`."""
DAY_MS: Final = 24 * 60 * 60 * 1000


def add_web_flags(parser: argparse.ArgumentParser) -> None:
    """Declares the flags that Prometheus' own exporters have for two of the settings."""
    for flag, name in (("--web.listen-address", "listen_address"), ("--web.config.file", "web_config_file")):
        parser.add_argument(
            flag,
            dest=f"setting:publish.{name}",
            metavar="VALUE",
            default=argparse.SUPPRESS,
            help=f"the same as {flag_name('publish.' + name)}",
        )


def add_spark_engine(parser: argparse.ArgumentParser) -> None:
    """Adds the options for fleets that one process cannot read."""
    group = parser.add_argument_group("clusters read by the executors of Spark")
    group.add_argument(
        "--engine",
        choices=("embedded", "spark"),
        default="embedded",
        help="embedded: clusters are read by this process. spark: by the executors of a Spark session. Default: embedded",
    )
    add_spark(group)


def add_fleet(parser: argparse.ArgumentParser) -> None:
    """Declares the options that choose clusters."""
    add_clusters(parser)
    parser.add_argument("--cluster", metavar="NAME", help="only the cluster of this name in that file")


def add_clusters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clusters", metavar=FILE, default=argparse.SUPPRESS, help="a fleet's file: clusters with their own settings"
    )


def add_spark(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--master", metavar="URL", help="Spark's master, such as local[*]; not with spark-submit, which sets it"
    )
    parser.add_argument(
        "--memory", type=java_size, default="1g", metavar="SIZE", help="of Spark's process. Default: 1g"
    )
    parser.add_argument(
        "--temporary",
        type=writable_directory,
        default=Path("/tmp"),  # noqa: S108 - a text would be checked by each `serve`, also where nothing may write
        metavar=DIRECTORY,
        help="directory for Spark's temporary files. Default: /tmp",
    )


def add_incident(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="its id, as on the page and in the log; without one all are listed"
    )
    add_format(parser, "markdown", "json", purpose="markdown: to paste into a post-mortem. Default: markdown")


def add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", default="/metrics", metavar="PATH", help="such as /-/ready or /incidents. Default: /metrics"
    )
    parser.add_argument(
        "--url",
        type=web_address,
        metavar="URL",
        help="the exporter's address. Default: publish.listen_address, on this machine",
    )


def add_explain(parser: argparse.ArgumentParser) -> None:
    which = parser.add_argument_group("one open transaction, or the transactions of an incident")
    add_scope(which, required=False)
    add_start_offset(which)
    which.add_argument(
        "--incident", type=name_text, metavar="ID", help="an incident that `serve` on this machine has followed"
    )
    add_format(parser, "text", "markdown", "json")
    parser.add_argument(
        "--max-megabytes",
        type=number(1, 10_000),
        default=256,
        metavar="NUMBER",
        help="read at most so much of the logs. Default: 256",
    )
    parser.add_argument(
        "--show-records",
        action="store_true",
        help="also show the names of the first record's headers; never keys or values",
    )
    parser.add_argument(
        "--max-seconds",
        type=number(1, 3600),
        default=10,
        metavar="NUMBER",
        help="read for at most so long. Default: 10",
    )


def add_timeouts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since",
        type=positive_duration,
        default=DAY_MS,
        metavar="DURATION",
        help="how far back, such as 30m or 7d. Default: 1d",
    )
    add_transactional_id(parser, help_="only transactions of this id")
    add_format(parser)


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("check", "dump"),
        help="check: print all errors with their place. dump: print every setting and its origin as YAML",
    )
    add_web_flags(parser)


def add_once(parser: argparse.ArgumentParser) -> None:
    add_format(parser, "table", "json", "prometheus")


class _ClusterOption(argparse.Action):
    """`--cluster` without a name leaves the name of one before."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _flag: str | None = None) -> None:
        setattr(namespace, self.dest, values or getattr(namespace, self.dest) or "")


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `doctor`: its `--cluster` is older than fleets, and works without a name."""
    add_clusters(parser)
    add_format(parser, "text", "json")
    parser.add_argument(
        "--acls",
        choices=("kafka-acls", "strimzi"),
        default="kafka-acls",
        help="the form of missing grants: lines of kafka-acls.sh, or rules of a KafkaUser. Default: kafka-acls",
    )
    parser.add_argument(
        "--require",
        choices=("all", "some"),
        default="all",
        help="which hangs it must be possible to prove for status 0. Default: all",
    )
    parser.add_argument(
        "--principal",
        metavar="USER:NAME",
        help="the exporter's principal, where the settings do not show it (Kerberos, tokens, mapping rules)",
    )
    parser.add_argument(
        "--cluster",
        action=_ClusterOption,
        nargs="?",
        metavar="NAME",
        help="also check the cluster's settings that prevent hanging transactions; with --clusters: of this cluster only",
    )
    parser.add_argument(
        "--prometheus",
        type=web_address,
        metavar="URL",
        help="also ask this Prometheus whether it scrapes the exporter and has its alerts",
    )


def add_why(parser: argparse.ArgumentParser) -> None:
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--group", type=name_text, metavar="GROUP", help="a consumer group that stands still")
    who.add_argument("--topic", type=name_text, metavar="TOPIC", help="a topic whose records cannot be seen")
    who.add_argument("--transactional-id", type=name_text, metavar="ID", help="a producer's id")
    who.add_argument("--producer-id", type=number(0, INT64_MAX), metavar="ID", help="a producer's number")
    parser.add_argument("--partition", type=number(0, INT32_MAX), metavar="NUMBER", help="only this one of the topic")
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="exit with 3 when a suspect holds it, or a live transaction for longer than blocked.after",
    )
    add_format(parser, "text", "json")


def add_find_hanging(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=False)
    add_broker(parser, "only partitions with a replica on this broker")
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
        metavar="DURATION",
        help="wait until a completing transaction is done or stuck for this long; 0 does not wait. "
        "Default: verdicts.stuck_after",
    )
    parser.add_argument(
        "--overdue-slack",
        type=duration,
        metavar="DURATION",
        help="overdue this long after its own timeout. Default: verdicts.overdue_slack",
    )
    add_find_hanging_output(parser)


def add_find_hanging_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="print every open transaction, not only suspects")
    parser.add_argument(
        "--states",
        type=states(*KNOWN_STATES, UNKNOWN),
        default=(),
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
        "--transactional-id-pattern",
        type=pattern,
        default="",
        metavar="REGEX",
        help="only transactional ids that match it fully",
    )
    parser.add_argument(
        "--states",
        type=states(*KNOWN_STATES),
        default=(),
        metavar=STATES,
        help="only transactions in these states, such as Ongoing",
    )
    add_format(parser)


def add_describe(parser: argparse.ArgumentParser) -> None:
    add_transactional_id(parser, required=True)
    add_format(parser)


def add_describe_producers(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=True)
    add_broker(parser, "read from this replica instead of the leader")
    add_format(parser)


def add_abort(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=False)
    which = parser.add_argument_group("one transaction", "by its start offset, or by its producer id and both epochs")
    add_start_offset(which)
    which.add_argument("--producer-id", type=number(0, INT64_MAX), metavar="ID", help="as kafka-transactions.sh has it")
    which.add_argument("--producer-epoch", type=number(0, INT16_MAX), metavar="EPOCH", help="needed with a producer id")
    which.add_argument(
        "--coordinator-epoch", type=number(-1, INT32_MAX), metavar="EPOCH", help="needed with a producer id"
    )
    many = parser.add_argument_group("many transactions")
    many.add_argument("--plan-file", metavar=FILE, help="transactions in FILE, written by find-hanging --plan-file")
    many.add_argument(
        "--max-aborts", type=number(1, INT32_MAX), metavar="NUMBER", help="refuse a longer plan file. Default: 10"
    )
    add_consent(parser)
    parser.add_argument(
        "--force",
        metavar=VERDICT,
        type=verdict,
        help="abort although it is not proved or was committed: type the verdict of the plan",
    )
    parser.add_argument(
        "--accept-data-loss", action="store_true", help="needed with --force: committed records may be lost"
    )


def add_complete(parser: argparse.ArgumentParser) -> None:
    add_scope(parser, required=True)
    add_start_offset(parser, required=True)
    parser.add_argument(
        "--stuck-after",
        type=positive_duration,
        metavar="DURATION",
        help="time that it must be completing. Default: verdicts.stuck_after",
    )
    add_consent(parser)


def add_force_terminate(parser: argparse.ArgumentParser) -> None:
    add_transactional_id(parser, "--transactionalId", required=True)
    add_consent(parser)


def add_scope(parser: argparse._ActionsContainer, *, required: bool) -> None:
    parser.add_argument("--topic", type=name_text, required=required, metavar="TOPIC", help="its name")
    parser.add_argument(
        "--partition", type=number(0, INT32_MAX), required=required, metavar="NUMBER", help="its number"
    )


def add_transactional_id(
    parser: argparse.ArgumentParser, *aliases: str, required: bool = False, help_: str = "the whole id"
) -> None:
    names = "--transactional-id", *aliases
    parser.add_argument(*names, type=name_text, dest="transactional_id", required=required, metavar="ID", help=help_)


def add_start_offset(parser: argparse._ActionsContainer, *, required: bool = False) -> None:
    parser.add_argument(
        "--start-offset",
        type=number(0, INT64_MAX),
        required=required,
        metavar="OFFSET",
        help="of its first record, as find-hanging shows it",
    )


def add_broker(parser: argparse.ArgumentParser, purpose: str) -> None:
    parser.add_argument("--broker-id", "--broker", type=number(0, INT32_MAX), metavar="ID", help=purpose)


def add_format(parser: argparse.ArgumentParser, *forms: str, purpose: str = "") -> None:
    """Declares `--format`: the first form is the default; without any, those of rows, as `find-hanging` has them."""
    if not forms:
        parser.add_argument(
            "--format",
            choices=("table", "json", "csv", "tsv"),
            help="table: for people. tsv: Kafka's own columns. Default: table on a terminal, tsv elsewhere",
        )
        return
    parser.add_argument("--format", choices=forms, default=forms[0], help=purpose or f"default: {forms[0]}")


def add_consent(parser: argparse.ArgumentParser) -> None:
    """The operator's consent to a write."""
    parser.add_argument("--dry-run", action="store_true", help="print the plan and write nothing")
    parser.add_argument("--yes", action="store_true", help="write without a confirmation")
    parser.add_argument(
        "--audit-log",
        metavar=FILE,
        help="append each step to FILE as a line of JSON. Default: in the state directory",
    )
