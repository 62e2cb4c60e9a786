"""Spark's classes in an archive of Java's, by the words of docs/pipeline.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipeline import cases
from tests.pipeline.program import Program
from tests.waiting import until

pytestmark = pytest.mark.slow
PATIENCE_S = 300
DOCUMENT = Path(__file__).parents[2] / "docs" / "pipeline.md"


def maps(archive: Path) -> list[str]:
    """Processes that have it in their memory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(archive) in path.read_text():
                found.append(path.parent.name)
        except OSError:  # it has just ended
            continue
    return found


def test_a_later_run_takes_spark_s_classes_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run writes it when it ends; Java maps it into its memory only if it fits these jars and this Java."""
    written, used = re.findall(r'export SPARK_SUBMIT_OPTS="(.*)"', DOCUMENT.read_text(encoding="utf-8"))
    archive, said = tmp_path / "spark-classes.jsa", tmp_path / "said"
    arguments = ["run", f"--history={tmp_path / 'history'}", f"--tables={tmp_path / 'tables'}"]
    cases.write_file(tmp_path / "history", "c", "a", [{"at": 30, "open": [{}]}, {"at": 60}])

    monkeypatch.setenv("SPARK_SUBMIT_OPTS", written.replace("$HOME", str(tmp_path)))
    assert Program(arguments, said).is_over_within(PATIENCE_S), said.read_text()
    until(archive.exists, bool, patience_s=PATIENCE_S)

    cases.write_file(tmp_path / "history", "c", "b", [{"at": 70, "open": [{}]}, {"at": 90}])
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", used.replace("$HOME", str(tmp_path)))
    program = Program(arguments, said)
    try:
        assert until(lambda: maps(archive), bool, patience_s=PATIENCE_S)
        assert program.is_over_within(PATIENCE_S), said.read_text()
    finally:
        program.end()
