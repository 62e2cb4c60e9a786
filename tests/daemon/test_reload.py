"""Reloading settings: when, what stays if they are invalid, and which settings need a restart."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from exporter.config.fleet import load_fleet
from exporter.config.loading import SettingsWithSources, load
from exporter.daemon.reload import Reloader
from tests.config.sasl import sasl_of


class Files:
    """A YAML file and a password file, and a Reloader over them."""

    def __init__(self, folder: Path) -> None:
        self.yaml, self.password = folder / "config.yaml", folder / "password"
        self.now_s = 1000.0
        self.password.write_text("one")
        self.write("10s")
        self.reloader = Reloader(self.load, self.load(), (self.yaml,), wall_clock=lambda: self.now_s)

    def write(self, interval: str, more: str = "") -> None:
        self.yaml.write_text(
            "kafka: {bootstrap.servers: 'a:1', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, "
            f"sasl.username: me, sasl.password_file: '{self.password}'}}\n"
            f"scan: {{interval: {interval}, deadline: 1s}}\n{more}"
        )

    def load(self) -> SettingsWithSources:
        return load(file=(str(self.yaml), self.yaml.read_text()), environment={}, flags={})


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_nothing_changes_while_no_file_does(files: Files) -> None:
    """Not by time, not by being written with the same contents."""
    files.write("10s")

    assert files.reloader.if_changed() is None
    assert (files.reloader.status.succeeded, files.reloader.status.last_success_at_ms) == (True, 1_000_000)


def test_a_changed_file_is_read_once(files: Files) -> None:
    """By its contents; a moment later there is nothing new."""
    files.write("20s")
    files.now_s = 2000.0

    reloaded = files.reloader.if_changed()

    assert reloaded is not None
    assert (reloaded.settings.scan.interval_ms, reloaded.changed) == (20_000, frozenset())
    assert files.reloader.status.last_success_at_ms == 2_000_000
    assert files.reloader.if_changed() is None


def test_a_rotated_password_is_a_change_of_its_own(files: Files) -> None:
    """The YAML file is unchanged; the settings are others, and new connections are needed."""
    files.password.write_text("two")

    reloaded = files.reloader.if_changed()

    assert reloaded is not None
    assert reloaded.changed == {files.password}
    assert sasl_of(reloaded.settings).password == "two"


@pytest.mark.parametrize(
    "half", ["kafka: {bootstrap.servers: 'a:1'}\nscan: {interval: 20s, deadline: 1s}\n", "kafka: {boot"]
)
def test_a_file_that_is_being_written_is_read_again_once_it_is_whole(files: Files, half: str) -> None:
    """Half of it may be valid, and is a change by itself; the rest comes while it is being loaded."""
    files.yaml.write_text(half)
    read = files.load

    def load_and_write() -> SettingsWithSources:
        try:
            return read()
        finally:
            files.write("30s")

    files.reloader._load = load_and_write
    files.reloader.if_changed()
    files.reloader._load = read
    reloaded = files.reloader.if_changed()

    assert reloaded is not None
    assert reloaded.settings.scan.interval_ms == 30_000
    assert files.reloader.if_changed() is None


def test_a_swapped_link_is_seen(files: Files, tmp_path: Path) -> None:
    """As Kubernetes mounts secrets: a link to a folder, swapped under an unchanged path."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "password").write_text(name)
    (tmp_path / "data").symlink_to("old")
    files.password = tmp_path / "data" / "password"
    files.write("10s")
    assert files.reloader.if_changed() is not None

    (tmp_path / "swap").symlink_to("new")
    (tmp_path / "swap").rename(tmp_path / "data")

    reloaded = files.reloader.if_changed()
    assert reloaded is not None
    assert sasl_of(reloaded.settings).password == "new"


def test_settings_that_could_not_be_applied_are_read_again(files: Files) -> None:
    """They are no success, and what changed before them is still a change."""
    files.password.write_text("two")
    files.now_s = 2000.0
    assert files.reloader.if_changed() is not None
    files.reloader.take_back()

    status = files.reloader.status
    assert (status.succeeded, status.last_success_at_ms) == (False, 1_000_000)
    again = files.reloader.if_changed()
    assert again is not None
    assert again.changed == {files.password}
    assert files.reloader.status.succeeded


def test_a_bad_file_is_reported_once_and_changes_nothing(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """Every problem, once; a repaired file is taken; a reload by order reports the problem again."""
    files.write("soon", "nonsense: 1\n")
    files.now_s = 2000.0

    assert files.reloader.if_changed() is None
    assert files.reloader.if_changed() is None
    assert [record.getMessage() for record in caplog.records] == [
        f"settings not reloaded, the previous ones stay in use: {files.yaml}:3: nonsense: unknown setting",
        (
            f"settings not reloaded, the previous ones stay in use: {files.yaml}:2: scan.interval must be a "
            "duration such as 500ms, 30s, 5m or 1h"
        ),
    ]
    assert (files.reloader.status.succeeded, files.reloader.status.last_success_at_ms) == (False, 1_000_000)
    assert files.reloader.now() is None
    assert len(caplog.records) == 4

    files.write("30s")
    reloaded = files.reloader.if_changed()
    assert reloaded is not None
    assert files.reloader.status.succeeded


def test_a_password_rotated_while_the_settings_are_invalid_is_a_change_afterwards(files: Files) -> None:
    """Otherwise the connections keep the old one until it expires."""
    files.write("soon")
    assert files.reloader.if_changed() is None
    files.password.write_text("two")
    assert files.reloader.if_changed() is None
    files.write("10s")

    reloaded = files.reloader.if_changed()
    assert reloaded is not None
    assert reloaded.changed == {files.password}


def test_a_secret_that_vanishes_keeps_the_old_settings(files: Files) -> None:
    """A file that is not there for a moment, as while it is being replaced."""
    files.password.unlink()
    assert files.reloader.if_changed() is None
    assert not files.reloader.status.succeeded

    files.password.write_text("back")
    reloaded = files.reloader.if_changed()
    assert reloaded is not None
    assert sasl_of(reloaded.settings).password == "back"


def test_a_secret_that_comes_after_the_settings_that_name_it_is_seen(files: Files) -> None:
    """Kubernetes may show a changed ConfigMap before the Secret."""
    files.password = files.password.with_name("new")
    files.write("10s")
    assert files.reloader.if_changed() is None
    assert files.reloader.if_changed() is None
    files.password.write_text("two")

    reloaded = files.reloader.if_changed()
    assert reloaded is not None
    assert sasl_of(reloaded.settings).password == "two"


def test_of_a_fleet_each_cluster_s_settings_that_need_a_restart_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those of one cluster alone, which is not the first."""
    caplog.set_level(logging.WARNING)
    path, base = tmp_path / "clusters.yaml", {"kafka.request.timeout.ms": "1000"}

    def read() -> SettingsWithSources:
        return load_fleet(clusters=(str(path), path.read_text()), file=None, environment={}, flags=base)

    def write(first: str, second: str) -> None:
        path.write_text(
            f"clusters:\n  a: {{kafka.bootstrap.servers: 'a:1'{first}}}\n  b: {{kafka.bootstrap.servers: 'b:1'{second}}}\n"
        )

    write("", "")
    reloader = Reloader(read, read(), (path,), wall_clock=lambda: 0.0)
    write("", ", transaction_log.enabled: true")
    reloader.now()
    write(", transaction_log.lookback: 2h", ", transaction_log.lookback: 2h, transaction_log.enabled: true")
    reloader.now()

    assert [record.getMessage() for record in caplog.records] == [
        "b: transaction_log.enabled changed: restart to apply it",
        "transaction_log.lookback changed: restart to apply it",
        "b: transaction_log.enabled changed: restart to apply it",
    ]


def test_a_setting_that_is_put_back_needs_no_restart(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """The exporter runs with what it has been started with, not with the file before."""
    files.write("20s", "publish.listen_address: ':1'\n")
    files.reloader.now()
    files.write("20s")
    files.reloader.now()

    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "publish.listen_address changed: restart to apply it"
    ]


def test_what_needs_a_restart_is_named(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """Each setting that changed and is looked at only at the start; the others are taken."""
    caplog.set_level(logging.INFO)
    files.write("20s", "publish: {listen_address: ':1', suspects_limit: 5}\nstate.file: none\n")

    assert files.reloader.now() is not None

    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "publish.listen_address changed: restart to apply it",
        "state.file changed: restart to apply it",
        "settings reloaded",
    ]
