"""Declares the options of commands that need no broker."""

from __future__ import annotations

import argparse
from typing import Final

from exporter.artifacts import DASHBOARDS
from exporter.commands.option_types import (
    interval,
    label,
    manifest_name,
    number,
    percentage,
    positive_duration,
    rate,
    threshold,
    web_address,
)
from exporter.commands.options import DIRECTORY, FILE, add_spark
from exporter.primitives import INT32_MAX

JOBS_WITH_BROKERS: Final = ("transaction-log", "audit")
"""Jobs of the pipeline that read from Kafka; the others have a history."""
JOBS_OF_FLAGS: Final = {
    "--groups": ("baselines", "run"),
    "--audit-log": ("operators", "run"),
    "--retention": ("operators", "compact", "run"),
    "--objective": ("report", "run"),
    "--max-rate": ("audit",),
    "--since": ("audit",),
    "--replicas": ("audit",),
}
"""Flags of the pipeline that other jobs than these would ignore."""


def add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def add_capsule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the incident, as on the page and in the log")
    parser.add_argument("--output", metavar=FILE, help="write into this new FILE. Default: capsule-ID.zip")
    parser.add_argument("--names", action="store_true", help="keep the names of topics, ids, groups, hosts and users")


def add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar=FILE, help="a capsule")
    parser.add_argument(
        "--cycle",
        type=number(1, INT32_MAX),
        metavar="NUMBER",
        help="this one. Default: the last with a suspect; with --diff all",
    )
    result = parser.add_mutually_exclusive_group()
    result.add_argument(
        "--diff", action="store_true", help="print the lines that differ from the recorded result instead"
    )
    result.add_argument(
        "--serve",
        nargs="?",
        const="127.0.0.1:9814",
        metavar="HOST:PORT",
        help="serve the status page and /metrics of that instant instead. Default: 127.0.0.1:9814",
    )


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job",
        choices=(
            "transactions",
            "incidents",
            "stalls",
            "operators",
            "outcomes",
            "baselines",
            "report",
            "compact",
            "run",
            *JOBS_WITH_BROKERS,
        ),
        help="run is all but the last two, which read from Kafka",
    )
    parser.add_argument(
        "--history",
        metavar=DIRECTORY,
        help="history.directory of the exporter, a path or a URI such as s3://BUCKET/KEY",
    )
    parser.add_argument("--tables", required=True, metavar=DIRECTORY, help="directory of the tables, a path or a URI")
    parser.add_argument("--every", type=interval, metavar="DURATION", help="repeat at this interval until Ctrl-C")
    parser.add_argument("--groups", metavar="JSON", help="the value of transaction_log.groups")
    parser.add_argument(
        "--audit-log",
        action="append",
        default=[],
        metavar=FILE,
        help="operators: an audit log of commands, a path or a URI; repeatable",
    )
    parser.add_argument(
        "--jars",
        metavar=DIRECTORY,
        help="jars of Delta and of Spark's connectors. Default: PySpark's, else Maven's",
    )
    parser.add_argument(
        "--retention",
        type=positive_duration,
        default="90d",
        metavar="DURATION",
        help="age at which rows of the tables are removed. Default: 90d",
    )
    parser.add_argument(
        "--max-rate",
        type=rate,
        default="20MB",
        metavar="BYTES",
        help="audit: most to read of each broker in a second. Default: 20MB",
    )
    parser.add_argument(
        "--since",
        type=positive_duration,
        metavar="DURATION",
        help="audit: how far back a first run begins, such as 7d",
    )
    parser.add_argument(
        "--replicas", action="store_true", help="audit: read all in-sync replicas, and compare their markers too"
    )
    parser.add_argument(
        "--objective",
        type=percentage,
        default="99.9",
        metavar="PERCENT",
        help="time without a blocked group, for budgets in the report. Default: 99.9",
    )
    add_spark(parser)


def add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=("prometheus", "prometheus-rule"),
        default="prometheus",
        help="prometheus: a rule file. prometheus-rule: a manifest for the operator. Default: prometheus",
    )
    parser.add_argument(
        "--name", type=manifest_name, help="of the manifest (prometheus-rule). Default: kafka-transaction-exporter"
    )
    parser.add_argument(
        "--config.file",
        dest="config_file",
        metavar=FILE,
        default=argparse.SUPPRESS,  # it may be before the command, too
        help="the exporter's settings: alerts have the line that makes the commands of a runbook read this file",
    )
    parser.add_argument("--clusters", metavar=FILE, help="a fleet's file, which these commands read too")
    parser.add_argument(
        "--runbook-base",
        type=web_address,
        metavar="URL",
        help="where the runbooks are. Default: at the exporter, if its settings have publish.external_url",
    )
    parser.add_argument("--grafana-url", type=web_address, metavar="URL", help="where Grafana is, for links in alerts")
    parser.add_argument(
        "--disable", action="append", default=[], metavar="NAME", help="leave out this alert, or reason; repeatable"
    )
    parser.add_argument(
        "--threshold", action="append", default=[], type=threshold, metavar="NAME=VALUE", help="set one; repeatable"
    )
    parser.add_argument(
        "--label", action="append", default=[], type=label, metavar="NAME=VALUE", help="of every alert; repeatable"
    )


def add_dashboards(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", choices=DASHBOARDS, help="print this one")
    parser.add_argument("--output", metavar=DIRECTORY, help="write all of them into this directory")
