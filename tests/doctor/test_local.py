"""The checks of this machine only look, and leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.config.loading import load
from exporter.doctor.local import local_findings


def of_state_file(path: Path) -> str:
    """The result of the doctor's check of the state file."""
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1"}).settings
    found = {finding.check: finding.result for finding in local_findings(settings, state_path=path)}
    return found["state file"]


@pytest.mark.parametrize("missing", ["state.json", "a/b/state.json"])
def test_a_state_file_that_could_be_written_is_not_begun(tmp_path: Path, missing: str) -> None:
    """A directory that the doctor made as root would be in the way of the exporter's own user."""
    found = of_state_file(tmp_path / missing)

    assert found == f"{tmp_path / missing} can be written by this user"
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    found = of_state_file(tmp_path / "taken" / "state.json")

    assert found == f"{tmp_path / 'taken'} cannot be written: {tmp_path / 'taken'} is not a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    assert "no permission" in of_state_file(tmp_path / "a" / "state.json")


def test_a_directory_that_is_closed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systemd closes the state of a DynamicUser: Path.exists() raises there, which tests as root never see."""

    def closed(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", closed)

    assert of_state_file(tmp_path / "a" / "state.json") == f"{tmp_path / 'a'} is closed to this user"


def test_a_state_file_that_serve_could_not_use_is_said(tmp_path: Path) -> None:
    """Its directory can be written, and that is not enough."""
    (tmp_path / "state").mkdir()
    os.mkfifo(tmp_path / "pipe")

    for name in ("state", "pipe"):
        assert of_state_file(tmp_path / name) == f"{tmp_path / name} is not a regular file"
    (tmp_path / "state.json").write_text("{}")
    assert of_state_file(tmp_path / "state.json") == f"{tmp_path / 'state.json'} can be written by this user"
