"""`examples/spark/audit.yaml`: what it has Spark run is what the program understands. tests/helm has its schema."""

from __future__ import annotations

from pathlib import Path

import yaml

from exporter.commands.arguments import build_parser

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"


def test_the_log_is_read_before_it_is_audited() -> None:
    """Both with the tables and the settings of one place, and with Spark's traffic encrypted: passwords go to executors."""
    applications = yaml.safe_load((EXAMPLES / "audit.yaml").read_text(encoding="utf-8"))["items"]
    fleet = yaml.safe_load((EXAMPLES / "application.yaml").read_text(encoding="utf-8"))["spec"]
    log, audit = (build_parser().parse_args(each["spec"]["template"]["arguments"]) for each in applications)
    minutes = [int(each["spec"]["schedule"].split()[0]) for each in applications]

    assert (log.job, audit.job) == ("transaction-log", "audit")
    assert minutes == sorted(minutes)
    assert (log.tables, log.config_file) == (audit.tables, audit.config_file)
    assert audit.max_rate == 20_000_000
    for each in applications:
        template = each["spec"]["template"]
        assert fleet["sparkConf"].items() >= template["sparkConf"].items() > set()
        assert template["image"] == fleet["image"]
        assert template["sparkVersion"] == fleet["sparkVersion"]
        assert template["mainApplicationFile"] == fleet["mainApplicationFile"]
        assert template["executor"]["securityContext"] == fleet["driver"]["securityContext"]
