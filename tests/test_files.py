"""The exporter's files are private; a path in a setting is read only if it is a small regular file."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

import exporter
from exporter.config.loading import ConfigurationError
from exporter.config.settings import Settings
from exporter.daemon import state_file
from exporter.daemon.kept_file import KeptFileError
from exporter.daemon.state_file import SavedState
from exporter.files import MEGABYTE, atomic_write, contents, create_file, ending, read_text, signature, write_new
from exporter.kafka.client.credentials import CredentialsError, client_options
from exporter.recovery import plan_file
from exporter.recovery.audit import AuditError, AuditLog
from exporter.recovery.plan_file import PlanFileError
from exporter.web.config import web_config
from exporter.web.config_file import WebFile
from exporter.web.tls import RenewingContext, ServerTlsError
from tests.certificates import Authority
from tests.daemon.stand_ins import settings_with
from tests.real_brokers.exporting import run

READERS: dict[str, Callable[[Path], object]] = {
    "text": read_text,
    "ending": lambda path: ending(path, bytes_max=MEGABYTE),
    "state": state_file.load,
    "plan": plan_file.load,
    "audit": lambda path: AuditLog(path, wall_clock=lambda: 0.0).step("planned"),
    "web": WebFile,
    "password": lambda path: _settings(kafka__sasl__password_file=str(path)),
    "authorities": lambda path: client_options(
        _settings(kafka__security__protocol="SSL", kafka__ssl__ca__location=str(path)).kafka
    ),
}
REFUSALS = (OSError, KeptFileError, PlanFileError, AuditError, ConfigurationError, CredentialsError)


def _settings(**flags: str) -> Settings:
    return settings_with(**flags)


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_not_a_file_is_refused_and_not_waited_for(tmp_path: Path, reader: str, kind: str) -> None:
    """A FIFO without a writer would stop the web server, and its liveness probe; /dev/zero has no end."""
    path = tmp_path / "odd"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()

    with pytest.raises(REFUSALS, match=r"not a regular file|Is a directory|No such device"):
        READERS[reader](path)


def test_rights_are_part_of_a_signature(tmp_path: Path) -> None:
    """A file that could not be read is read again after chmod."""
    path = tmp_path / "web.yml"
    path.write_text("")
    before = signature(path)
    path.chmod(0o640)
    assert signature(path) != before


@pytest.mark.parametrize("reader", ["users", "certificate"])
def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where nothing of it changes afterwards, as where the process had too many files open; it is logged once."""
    authority = Authority(tmp_path)
    issued, renewed = authority.issue("server"), authority.issue("renewed")
    path = tmp_path / "web.yml"
    path.write_text(f"tls_server_config:\n  cert_file: {issued.certificate}\n  key_file: {issued.key}\n")
    web = WebFile(path)
    options = web.current().tls
    assert options is not None
    context = RenewingContext(options)
    before = web.current(), context.current()
    path.write_text(f"{path.read_text()}http_server_config:\n  headers: {{X-Frame-Options: deny}}\n")
    issued.certificate.write_bytes(renewed.certificate.read_bytes())
    issued.key.write_bytes(renewed.key.read_bytes())
    current = web.current if reader == "users" else context.current
    with monkeypatch.context() as patched:
        for name in ("config_file.read_text", "tls.check_regular"):
            full = OSError(errno.EMFILE, "Too many open files")
            patched.setattr(f"exporter.web.{name}", Mock(side_effect=full))
        for _ in range(3):
            assert current() in before
    assert caplog.text.count("Too many open files") == 1
    assert current() not in before


def test_a_certificate_that_becomes_a_fifo_stops_no_handshake(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server")
    text = f"tls_server_config:\n  cert_file: {issued.certificate}\n  key_file: {issued.key}\n"
    options = web_config(tmp_path / "web.yml", text).tls
    assert options is not None
    context = RenewingContext(options)
    before = context.current()
    issued.certificate.unlink()
    os.mkfifo(issued.certificate)

    assert context.current() is before
    with pytest.raises(ServerTlsError, match="not a regular file"):
        RenewingContext(options)


@pytest.mark.parametrize("text", [None, "kafka: {bootstrap.servers: 'a:1', sasl.password_file: /dev/zero}"])
def test_a_device_without_an_end_is_a_sentence(tmp_path: Path, text: str | None) -> None:
    path = Path("/dev/zero") if text is None else tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)

    assert "not a regular file" in run(tmp_path, "config", "check", f"--config.file={path}")


def test_a_file_over_its_cap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(MEGABYTE))

    assert len(contents(path)) == MEGABYTE
    os.truncate(path, MEGABYTE + 1)
    with pytest.raises(OSError, match="larger than 1 MB"):
        contents(path)


def test_line_ends_become_newlines(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("a\r\nb\rc\né".encode())

    assert read_text(path) == "a\nb\nc\né"


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes("é1\n2\n".encode())
    assert ending(path, bytes_max=4) == "1\n2\n"
    assert ending(path, bytes_max=5) == "\N{REPLACEMENT CHARACTER}1\n2\n"
    assert ending(path, bytes_max=100) == "é1\n2\n"


def test_a_new_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """On a full disk nothing of it stays, which would be taken for it; a file that is there stays as it is."""
    path, there = tmp_path / "new", tmp_path / "there"
    there.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_new(path, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert not path.exists()
    with pytest.raises(FileExistsError):
        write_new(there, b"new")
    assert there.read_bytes() == b"old"
    write_new(path, b"new")
    assert path.read_bytes() == b"new"


def test_the_exporter_s_files_are_for_its_user_alone(tmp_path: Path) -> None:
    """State and audit lines hold transactional ids, whatever the umask."""
    old = os.umask(0)
    try:
        state_file.save(tmp_path / "a" / "b" / "state.json", SavedState())
        AuditLog(tmp_path / "c" / "audit.jsonl", wall_clock=lambda: 0.0).step("planned")
        with create_file(tmp_path / "plan.json"):
            pass
    finally:
        os.umask(old)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {
        "a": 0o700,
        "b": 0o700,
        "c": 0o700,
        "state.json": 0o600,
        "audit.jsonl": 0o600,
        "plan.json": 0o600,
    }


@pytest.mark.parametrize("kind", ["link", "file"])
def test_an_existing_temporary_file_is_not_written_into(tmp_path: Path, kind: str) -> None:
    """A link that somebody put there, or what a run that was killed has left: in a container the process id is known."""
    precious, beside, path = tmp_path / "precious", tmp_path / ".tmp", tmp_path / "state.json"
    precious.write_text("mine")
    if kind == "link":
        beside.symlink_to(precious)
    else:
        beside.write_text("half")

    with atomic_write(path, beside=".tmp") as file:
        file.write(b"whole")

    assert (path.read_text(), precious.read_text(), beside.exists(), path.is_symlink()) == (
        "whole",
        "mine",
        False,
        False,
    )
    path.unlink()
    path.symlink_to(precious)
    with pytest.raises(FileExistsError):
        create_file(path)


def test_the_package_says_that_it_is_typed() -> None:
    """PEP 561: without the file type checkers take nothing of it."""
    assert (Path(exporter.__file__).parent / "py.typed").is_file()
