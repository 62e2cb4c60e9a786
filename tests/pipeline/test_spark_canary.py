"""The canary of `tests/test_canary.py` in Spark's output: its Kafka source gets a password as an option."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.workload.producers import run_transaction
from tests.brokers.jars import spark_jars
from tests.brokers.secure import PASSWORD, USER, Certificates, SecureCluster

CANARY = "c4nary"
LOUD = """
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c %m%n%ex
logger.sql.name = org.apache.spark.sql
logger.sql.level = debug
logger.kafka.name = org.apache.kafka
logger.kafka.level = debug
"""
LOUDLY = """
import sys
from exporter.pipeline import spark_output
spark_output.LOG4J, spark_output._QUIET = sys.argv.pop(1), ()
from exporter.cli import main
sys.exit(main())
"""
"""The program, whose own settings of Spark's log, errors only, are replaced: they go before those of Spark's folder."""


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_spark_shows_no_password(tmp_path: Path, mechanism: str) -> None:
    """Not in its event log, which holds every query's plan, its loudest log, checkpoints, or tables."""
    spark, events, tables = tmp_path / "conf", tmp_path / "events", tmp_path / "tables"
    for folder in (spark, events):
        folder.mkdir()
    (spark / "spark-defaults.conf").write_text(f"spark.eventLog.enabled true\nspark.eventLog.dir file:{events}\n")
    cluster = SecureCluster("4.3.1", Certificates.made_in(tmp_path / "certificates"))
    with cluster:
        cluster.add_scram_users()
        run_transaction(cluster.bootstrap, "app", [(cluster.topics.create("orders"), 0)])
        (tmp_path / "config.yaml").write_text(
            f"kafka:\n  bootstrap.servers: {cluster.door('LOGIN')}\n  security.protocol: SASL_PLAINTEXT\n"
            f"  sasl.mechanism: {mechanism}\n  sasl.username: {USER}\n  sasl.password: ${{env:MINE}}\n"
        )
        made = subprocess.run(
            [
                *(sys.executable, "-c", LOUDLY, LOUD),
                "pipeline",
                "transaction-log",
                f"--tables={tables}",
                f"--jars={spark_jars()}",
                f"--config.file={tmp_path / 'config.yaml'}",
                "--master=local[2]",
                "--memory=512m",
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "SPARK_CONF_DIR": str(spark), "HOME": str(tmp_path), "MINE": PASSWORD},
        )

    seen = {"output": made.stdout + made.stderr}
    for folder in (events, tables):
        seen |= {str(path): path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()}
    assert made.returncode == 0, seen["output"][-3000:]
    assert any(path.startswith(str(events)) for path in seen), "Spark wrote no event log"
    assert f"sasl.mechanism = {mechanism}" in seen["output"], (
        "Kafka's own client, which writes its options, was not loud"
    )
    assert [place for place, text in seen.items() if CANARY in text] == []
