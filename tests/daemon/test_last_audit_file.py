"""The file of the newest audit becomes gauges of its own cluster; without one there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.daemon.daemon import Daemon
from exporter.daemon.report_file import ReportFile
from exporter.snapshot import Snapshot
from exporter.storage.last_audit import BYTES_MAX, DAY_MS, LastAudit, document, file_name
from tests.daemon.fleets import Scripts, fleet
from tests.daemon.fleets import healthy as healthy_cluster
from tests.daemon.stand_ins import Clock, Script, cycle, down, get, healthy, settings_with
from tests.evaluation.builders import NOW_MS

METRICS = (
    "kafka_transactions_audited",
    "kafka_transaction_audit_findings",
    "kafka_transaction_exporter_audit_timestamp_seconds",
)
LAST = LastAudit(
    cluster_id="cluster-1",
    audited_at_ms=NOW_MS,
    transactions={"torn": 1, "unknown": 0, "as_decided": 10_412},
    findings={"torn": 2, "contradicted": 0},
    partitions=61,
    partitions_unread=1,
)
WRITTEN_AT = f"kafka_transaction_exporter_audit_timestamp_seconds {NOW_MS // 1000}"
COUNTED = [
    'kafka_transactions_audited{verdict="torn"} 1',
    'kafka_transactions_audited{verdict="unknown"} 0',
    'kafka_transactions_audited{verdict="as_decided"} 10412',
    'kafka_transaction_audit_findings{verdict="torn"} 2',
    'kafka_transaction_audit_findings{verdict="contradicted"} 0',
]


def gauges(daemon: Daemon) -> list[str]:
    return [line for line in get(daemon, "/metrics")[1].splitlines() if line.startswith(METRICS)]


def daemon_on(script: Script, folder: Path, clock: Clock) -> Daemon:
    settings = settings_with(**{"publish.report": str(folder / "report.html")})
    report = ReportFile(folder / "report.html")
    return Daemon(settings, lambda _: script, report=report, wall_clock=clock, clock=clock)


def with_topic_ids(taken: Snapshot, topic_id: str) -> Snapshot:
    ids = tuple(topic_id for _ in taken.partitions.topics)
    return replace(taken, partitions=replace(taken.partitions, topic_ids=ids))


def test_the_file_of_its_own_cluster_becomes_gauges(tmp_path: Path) -> None:
    """They follow the file; that of another cluster is not read, and without `publish.report` none is."""
    daemon = daemon_on(Script(*[healthy() for _ in range(4)]), tmp_path, Clock())
    (tmp_path / file_name("cluster-2")).write_text(document(replace(LAST, cluster_id="cluster-2")))
    cycle(daemon)
    seen = [gauges(daemon)]
    path = tmp_path / file_name("cluster-1")
    for text in (document(LAST), document(replace(LAST, transactions={}, findings={}))):
        path.write_text(text)
        cycle(daemon)
        seen.append(gauges(daemon))
    path.unlink()
    cycle(daemon)

    assert seen == [[], [*COUNTED, WRITTEN_AT], [WRITTEN_AT]]
    assert gauges(daemon) == []
    path.write_text(document(LAST))
    without = Daemon(settings_with(), lambda _: Script(healthy()))
    cycle(without)
    assert gauges(without) == []


def test_counts_of_a_day_end_with_the_day(tmp_path: Path) -> None:
    """Only the age stays when no audit follows, and nothing when the cluster cannot be read."""
    clock = Clock()
    (tmp_path / file_name("cluster-1")).write_text(document(LAST))
    daemon = daemon_on(Script(healthy(), healthy(DAY_MS / 1000), *[down() for _ in range(3)]), tmp_path, clock)
    seen = []
    for later_ms in (DAY_MS, 1, 10_000, 10_000, 10_000):
        clock.now += later_ms / 1000
        cycle(daemon)
        seen.append(gauges(daemon))

    assert seen[:2] == [[*COUNTED, WRITTEN_AT], [WRITTEN_AT]]
    assert seen[-1] == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[]", "it is not the file of an audit"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b" " * (BYTES_MAX + 1), "it cannot be read: it is larger than"),
    ],
)
def test_a_damaged_file_gives_one_log_line(
    content: bytes, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing one gives none: nobody has to use the audit."""
    path = tmp_path / file_name("cluster-1")
    daemon = daemon_on(Script(*[healthy() for _ in range(5)]), tmp_path, Clock())
    with caplog.at_level("WARNING"):
        cycle(daemon)
        path.write_bytes(content)
        cycle(daemon)
        cycle(daemon)
    said = [line for line in caplog.messages if "last audit" in line]

    assert len(said) == 1
    assert said[0].startswith(f"last audit {path} is not shown: {why}")
    assert gauges(daemon) == []
    path.write_text(document(LAST))
    cycle(daemon)
    assert gauges(daemon) == [*COUNTED, WRITTEN_AT]


def test_each_cluster_of_a_fleet_has_its_own(tmp_path: Path) -> None:
    """A cluster that has the id of an earlier one, and other topics, has none."""
    sums = {"id-east": 3, "id-west": 7}
    for cluster_id, findings in sums.items():
        audit = replace(LAST, cluster_id=cluster_id, transactions={}, findings={"torn": findings})
        (tmp_path / file_name(cluster_id)).write_text(document(audit))
    scripts = Scripts(
        east=Script(with_topic_ids(healthy_cluster("id-east"), "a")),
        west=Script(healthy_cluster("id-west")),
        copy=Script(with_topic_ids(healthy_cluster("id-east"), "b")),
    )
    settings = fleet("east", "west", "copy", publish__report=str(tmp_path / "report.html"))
    daemon = Daemon(settings, scripts, report=ReportFile(tmp_path / "report.html"), wall_clock=Clock())

    cycle(daemon)

    assert [line for line in gauges(daemon) if "findings" in line] == [
        'kafka_transaction_audit_findings{cluster="east",verdict="torn"} 3',
        'kafka_transaction_audit_findings{cluster="west",verdict="torn"} 7',
    ]
