"""The transaction log by Spark: each record decoded once, one row per transaction, and its outcome the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.workload.rhythm import Rhythm
from exporter.config.loading import load
from exporter.pipeline.log_job import LogJobError, LogSource, java_client_options, read_log
from exporter.pipeline.tables import Tables
from exporter.pipeline.transaction_log import (
    kafka_stream,
    outcomes_of,
    read_records,
    records_of,
    write_records,
)
from tests.conftest import FreshName, MakeCluster
from tests.pipeline.log_records import (
    ABORTED,
    COMMITTED,
    KAFKA_COLUMNS,
    ONGOING,
    PATIENCE_S,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    positions,
    worked,
)
from tests.transaction_log.builders import key_of, value
from tests.workload.conftest import HASTY, PARTITIONS

Written = tuple[int, int, bytes | None, bytes | None]


def kafka_frame(spark: SparkSession, written: Iterable[Written]) -> DataFrame:
    """(partition, offset, key, value) as Spark's source has them; a record is written at second 1 and its offset in ms."""
    rows = [
        (partition, offset, datetime.fromtimestamp(1 + offset / 1000, timezone.utc), name, value)
        for partition, offset, name, value in written
    ]
    return spark.createDataFrame(rows, KAFKA_COLUMNS)


def outcome_rows(spark: SparkSession, written: Iterable[Written]) -> list[dict[str, Any]]:
    outcomes = outcomes_of(records_of(kafka_frame(spark, written), "cluster-1"))
    return [row.asDict() for row in outcomes.orderBy("transactional_id", "start_ms").collect()]


ONE: list[Written] = [
    (3, 0, key_of("app"), value(ONGOING, 1000)),
    (3, 1, key_of("app"), value(PREPARE_COMMIT, 1000, updated_ms=1020)),
    (3, 2, key_of("app"), value(COMMITTED, 1000, updated_ms=1030)),
]


def test_a_transaction_is_one_row_however_its_records_come(spark: SparkSession) -> None:
    """In any order, and twice: two files of one stretch of the log are as good as one."""
    (row,) = outcome_rows(spark, [*reversed(ONE), *ONE])

    assert row == {
        "cluster_id": "cluster-1",
        "transactional_id": "app",
        "producer_id": 7,
        "producer_epoch": 0,
        "outcome": "commit",
        "start_ms": 1000,
        "decided_ms": 1020,
        "completed_ms": 1002,
        "duration_ms": 20,
        "marker_ms": None,
        "partitions": [],
    }


def test_outcomes_are_those_of_the_daemon(spark: SparkSession) -> None:
    """A time-out and a fence by the epoch, an end whose beginning is lost, an id that comes back after it was forgotten."""
    written = [
        (0, 0, key_of("late"), value(ONGOING, 1000)),
        (0, 1, key_of("late"), value(PREPARE_ABORT, 1000, epoch=1, updated_ms=2000)),
        (0, 2, key_of("late"), value(ABORTED, 1000, epoch=1, updated_ms=2001)),
        (0, 3, key_of("shut out"), value(ONGOING, 1000)),
        (0, 4, key_of("shut out"), value(PREPARE_ABORT, 1000, epoch=1, updated_ms=1999)),
        (1, 5, key_of("middle"), value(COMMITTED, 1000)),
        (1, 6, key_of("middle"), None),
        (1, 7, key_of("middle"), value(ONGOING, 3000)),
        (1, 8, key_of("middle"), value(PREPARE_ABORT, 3000, updated_ms=3005)),
        # A commit of which nothing was sent: its record was taken for a failed one, and the time-out has decided again.
        (2, 9, key_of("superseded"), value(ONGOING, 1000)),
        (2, 10, key_of("superseded"), value(PREPARE_COMMIT, 1000, updated_ms=1500)),
        (2, 11, key_of("superseded"), value(PREPARE_ABORT, 1000, epoch=1, updated_ms=2500)),
        (2, 12, key_of("superseded"), value(ABORTED, 1000, epoch=1, updated_ms=2501)),
    ]

    rows = outcome_rows(spark, written)

    assert [(row["transactional_id"], row["outcome"], row["duration_ms"]) for row in rows] == [
        ("late", "timeout", 1000),
        ("middle", "commit", None),
        ("middle", "abort", 5),
        ("shut out", "fenced", 999),
        ("superseded", "abort", 1500),
    ]


def test_what_cannot_be_decoded_is_a_row_of_its_kind(spark: SparkSession) -> None:
    """A query of the table can count them, and the job goes on."""
    written: list[Written] = [
        (0, 0, b"\0", None),
        (0, 1, b"\0\1\0\0", b""),
        (0, 2, None, None),
        (0, 3, key_of("x"), b"\0\7"),
        (0, 4, key_of("x"), None),
        *ONE,
    ]
    records = records_of(kafka_frame(spark, written), "cluster-1")

    kinds = Counter(row.kind for row in records.collect())
    assert kinds == {"malformed": 2, "unknown_version": 2, "tombstone": 1, "state": 3}
    assert outcomes_of(records).count() == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {"kafka.security.protocol": "PLAINTEXT"}),
        (
            """security.protocol: SASL_SSL
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: me
  sasl.password: 'p"\\'
  ssl.ca.location: /ca.pem""",
            {
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="me" password="p\\"\\\\";',
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": "/ca.pem",
                "kafka.ssl.endpoint.identification.algorithm": "https",
            },
        ),
        (
            """security.protocol: SSL
  ssl.keystore.location: /k.p12
  ssl.keystore.password: s
  ssl.endpoint.identification.algorithm: none""",
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.keystore.type": "PKCS12",
                "kafka.ssl.keystore.location": "/k.p12",
                "kafka.ssl.keystore.password": "s",
                "kafka.ssl.endpoint.identification.algorithm": "",
            },
        ),
    ],
)
def test_java_s_client_gets_the_settings_of_the_others(text: str, options: dict[str, str]) -> None:
    """Under its own names, quoted as JAAS reads it."""
    kafka = load(
        file=("c.yaml", f"kafka:\n  bootstrap.servers: a:1\n  {text}\n"), environment={}, flags={}
    ).settings.kafka

    given = java_client_options(kafka)

    assert {name: value for name, value in given.items() if name not in COMMON} == options
    assert (given["kafka.bootstrap.servers"], given["kafka.client.id"]) == ("a:1", "kafka-transaction-exporter")


COMMON = {"kafka.bootstrap.servers", "kafka.client.id", "kafka.request.timeout.ms", "kafka.default.api.timeout.ms"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "security.protocol: SASL_PLAINTEXT\n  sasl.mechanism: GSSAPI",
            "GSSAPI is not supported with Spark's Kafka source",
        ),
        (
            "security.protocol: SSL\n  ssl.certificate.location: /c\n  ssl.key.location: /k",
            "put key and certificate into a PKCS12 file and set kafka.ssl.keystore.location",
        ),
        (
            "security.protocol: SSL\n  ssl.crl.location: /c",
            "kafka.ssl.crl.location is not supported with Spark's Kafka source",
        ),
    ],
)
def test_what_it_does_not_support_is_reported(text: str, sentence: str) -> None:
    """Rather than left out."""
    kafka = load(
        file=("c.yaml", f"kafka:\n  bootstrap.servers: a:1\n  {text}\n"), environment={}, flags={}
    ).settings.kafka

    with pytest.raises(LogJobError) as caught:
        java_client_options(kafka)
    assert sentence in str(caught.value)


def test_a_log_that_was_made_again_is_refused(tmp_path: Path) -> None:
    """Its offsets begin anew, so the checkpoint's may never come again; Spark says nothing, and reads nothing."""
    tables = Tables(tmp_path)
    assert tables.is_same_log("c", "first")
    assert tables.is_same_log("c", "first")
    assert tables.is_same_log("c", "")  # brokers without topic ids
    assert tables.is_same_log("other", "second")
    source = LogSource("c", "second", {}, {})
    no_spark: Any = None

    with pytest.raises(LogJobError, match=r"was made again since it was read into .*: use another --tables"):
        read_log(no_spark, source, tables, every_ms=None)


@pytest.mark.slow
def test_a_real_log_as_a_stream_has_the_workload_s_outcomes(
    make_cluster: MakeCluster, fresh_name: FreshName, spark: SparkSession, tmp_path: Path
) -> None:
    """The workload's own counts, by outcome; a stream that goes on brings what is new, and nothing twice."""
    cluster = make_cluster("4.3.1", properties=HASTY)
    topic = cluster.topics.create(fresh_name("topic"), partitions=len(PARTITIONS))
    options = java_client_options(
        load(file=None, environment={}, flags={"kafka.bootstrap.servers": cluster.bootstrap}).settings.kafka
    )
    table, checkpoint = Tables(tmp_path).transaction_log, tmp_path / "checkpoint"
    expected: Counter[str] = Counter()
    cluster_id, offsets = "", dict[int, int]()
    for turn in range(2):
        rhythm = Rhythm(transactions=12, abort_share=0.2, stall_every=6, zombie_every=5, stall_timeout_ms=1000)
        expected += worked(cluster, topic, f"turn-{turn}", rhythm)
        cluster_id, offsets = positions(cluster.bootstrap)
        stream = records_of(kafka_stream(spark, options, offsets), cluster_id)
        query = write_records(stream, table, cluster_id, checkpoint, every=None)
        assert query.awaitTermination(PATIENCE_S)

        streamed = outcomes_of(read_records(spark, table, {cluster_id: 0}))
        assert Counter(row.outcome for row in streamed.collect()) == expected
