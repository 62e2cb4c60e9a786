"""The pipeline's report as a page: as it stands, read again when it changes, with a reason when it cannot be shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.config.loading import ConfigurationError
from exporter.daemon.daemon import Daemon
from exporter.daemon.report_file import BYTES_MAX, ReportFile
from exporter.storage.last_run import FILE_NAME, JobFailure, LastRun, document, parse
from tests.daemon.fleets import Scripts, fleet
from tests.daemon.stand_ins import Script, cycle, get, healthy, settings_with

SUCCEEDED = "kafka_transaction_exporter_pipeline_last_success_timestamp_seconds"
REPORT = "<!doctype html>\n<html><body>the report of {}</body></html>\n"


def text_of(report: ReportFile) -> str:
    page = report.page()
    return (page.head + page.rest).decode()


def test_the_report_is_shown_as_it_stands_and_again_when_it_changes(tmp_path: Path) -> None:
    """The pipeline replaces the file as a whole."""
    path = tmp_path / "report.html"
    path.write_text(REPORT.format("today"))
    report = ReportFile(path)
    assert text_of(report) == REPORT.format("today")
    assert report.page() is report.page(), "unchanged, it is not read again"
    (tmp_path / "new").write_text(REPORT.format("a later day"))
    (tmp_path / "new").rename(path)

    assert text_of(report) == REPORT.format("a later day")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "it cannot be read: No such file or directory"),
        (b"<script>alert(1)</script>", "it is not a report of the pipeline"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"<!doctype html>" + b" " * BYTES_MAX, "it cannot be read: it is larger than 9 MB"),
    ],
)
def test_a_page_says_why_the_report_cannot_be_shown(
    content: bytes | None, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line says it too, however often the page is made."""
    path = tmp_path / "<i>.html"
    if content is not None:
        path.write_bytes(content)
    report = ReportFile(path)
    with caplog.at_level("WARNING"):
        shown = [text_of(report) for _ in range(3)]

    assert f"{tmp_path}/&lt;i&gt;.html cannot be shown: {why}." in shown[0]
    assert "<script>alert" not in shown[0]
    assert caplog.messages == [f"report {path} is not shown: {why}"]


def test_a_gauge_says_when_a_run_succeeded_last(tmp_path: Path) -> None:
    """The file beside the report says it; without the setting, the file or a success there are no series."""
    settings = settings_with(**{"publish.report": str(tmp_path / "report.html")})
    daemon = Daemon(settings, lambda _: Script(healthy()), report=ReportFile(tmp_path / "report.html"))
    failed = LastRun(started_at_ms=1000, ended_at_ms=2500, succeeded_at_ms=None, failures=(JobFailure("report", "no"),))
    seen = []
    for text in (None, document(failed), document(replace(failed, succeeded_at_ms=1500)), "[]", '{"format": 1}'):
        if text is not None:
            (tmp_path / FILE_NAME).write_text(text)
        cycle(daemon)
        lines = get(daemon, "/metrics")[1].splitlines()
        seen.append([line.split()[1] for line in lines if line.startswith(SUCCEEDED)])

    assert seen == [[], [], ["1.5"], [], []]
    assert parse(document(failed)) == failed
    without = Daemon(settings_with(), lambda _: Script(healthy()))
    cycle(without)
    assert SUCCEEDED not in get(without, "/metrics")[1]


def test_pages_link_to_the_report_where_there_is_one(tmp_path: Path) -> None:
    """At /report, of one cluster or of a fleet; without the setting there is neither page nor link."""
    path = tmp_path / "report.html"
    path.write_text(REPORT.format("today"))
    settings = settings_with(**{"publish.report": str(path)})
    one = Daemon(settings, lambda _: Script(healthy()), report=ReportFile(path))
    many = Daemon(
        fleet("east", "west", publish__report=str(path)),
        Scripts(east=Script(healthy()), west=Script(healthy())),
        report=ReportFile(path),
    )
    without = Daemon(settings_with(), lambda _: Script(healthy()))
    for daemon in (one, many, without):
        cycle(daemon)

    for daemon, page in ((one, "/"), (many, "/"), (many, "/clusters/east")):
        assert get(daemon, "/report") == (200, REPORT.format("today"))
        assert '<a href="/report">report</a>' in get(daemon, page)[1]
    assert get(without, "/report")[0] == 404
    assert "/report" not in get(without, "/")[1]


def test_the_report_has_ids_that_may_be_hidden() -> None:
    """Both settings together are refused: the report shows what the other pages hide."""
    with pytest.raises(ConfigurationError, match=r"publish\.report shows transactional ids, which"):
        settings_with(**{"publish.report": "report.html", "publish.transactional_ids": "false"})
