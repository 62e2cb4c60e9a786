"""The daemon's history in Google's store: of a server that stands in for it on the loopback, and of none at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from exporter.history.writer import History
from exporter.storage.faults import StoreError, reason_of
from exporter.storage.location import Location
from exporter.storage.objects import ObjectPath
from exporter.storage.places import place_of
from exporter.storage.small_file import FetchedObject
from hangbench.kafka.ports import free_ports
from tests.evaluation.builders import NOW_MS
from tests.history.cycles import DAY_MS, cycle, settings
from tests.storage.server import HOST, started
from tests.tools import ToolUnavailable, fake_gcs_server

ENDPOINT = "CLOUD_STORAGE_EMULATOR_ENDPOINT"
"""Google's client looks there."""
PATIENCE_S = 120
"""Without a limit of its own the client would take 900."""
WRITING = """
    from exporter.storage import objects
    from exporter.storage.places import place_of
    objects.GOOGLE_RETRY_SECONDS = 1
    try:
        place_of("gs://bucket/history/a").write_bytes(b"1")
    except OSError as error:
        print(error)
"""


def credentials(folder: Path) -> Path:
    """Of an account that nobody knows: with them the client asks nobody for a token."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "private_key_id": "1", "private_key": key.decode()}
    path = folder / "account.json"
    path.write_text(json.dumps({**account, "client_email": "a@b", "client_id": "1", "token_uri": f"http://{HOST}:1"}))
    return path


def test_a_store_that_is_away_is_reported_within_seconds(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WRITING)],
        env={
            **os.environ,
            "GOOGLE_APPLICATION_CREDENTIALS": str(credentials(tmp_path)),
            ENDPOINT: f"http://{HOST}:{free_ports(1)[0]}",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert found.stdout.startswith("gs://bucket/history/a: UNAVAILABLE: CURL error [7]=Could not connect to server (")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            "UNAVAILABLE: Retry policy exhausted, with a last message of Could not create a OAuth2 access token to do it.",
            "UNAUTHENTICATED: Could not create a OAuth2 access token to do it (check the credentials in the environment",
        ),
        (
            "NOT_FOUND: Permanent error, with a last message of Not Found error_info={reason=Not Found, domain=global}",
            "NOT_FOUND: Not Found (create the bucket, or correct its name)",
        ),
        (
            "PERMISSION_DENIED: Permanent error, with a last message of no access error_info={reason=forbidden}",
            "PERMISSION_DENIED: no access (check the credentials in the environment",
        ),
    ],
)
def test_a_fault_says_what_to_do(status: str, reason: str) -> None:
    """In the form that Google's client was seen to have, shortened; the last is made up."""
    assert reason_of(OSError(f"[Errno 2] google::cloud::Status({status}). Detail: [errno 2]")).startswith(reason)


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a server, which has a bucket; the environment leads to it."""
    try:
        program = fake_gcs_server()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    (port,), folder = free_ports(1), tmp_path / "objects"
    (folder / "bucket").mkdir(parents=True)
    monkeypatch.setenv(ENDPOINT, f"http://{HOST}:{port}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(credentials(tmp_path)))
    command = [str(program), "-scheme", "http", "-host", HOST, "-port", str(port), "-public-host", f"{HOST}:{port}"]
    server = started([*command, "-backend", "filesystem", "-filesystem-root", str(folder)], port, tmp_path / "log.txt")
    try:
        yield folder / "bucket"
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
@pytest.mark.programs
def test_the_history_and_what_is_usual_are_there(objects: Path, tmp_path: Path) -> None:
    """Cycles as on a disk, the oldest removed; a file that is fetched; what is missing, and a bucket that is."""
    on_disk = History(settings(tmp_path / "disk"), wall_clock=lambda: NOW_MS / 1000, writer="writer-1")
    on_disk.record(cycle(cluster_id="é/ü"), 30_000)
    on_disk.rotate()
    kept = History(settings("gs://bucket/history"), wall_clock=lambda: NOW_MS / 1000, writer="writer-1")
    for at_ms in (NOW_MS - 40 * DAY_MS, NOW_MS):
        kept.record(cycle(at_ms, cluster_id="é/ü"), 30_000)
        kept.rotate()
        assert kept.status().failure is None

    there = {path.relative_to(objects / "history"): path for path in objects.rglob("*.parquet")}
    expected = {path.relative_to(tmp_path / "disk"): path for path in (tmp_path / "disk").rglob("*.parquet")}
    assert there.keys() == expected.keys()
    assert all(pq.read_table(path).equals(pq.read_table(expected[name])) for name, path in there.items())

    baselines = ObjectPath(Location("gs", "bucket", "baselines.json"))
    baselines.write_bytes(b"{}")
    assert FetchedObject(baselines, bytes_max=100).read_text() == "{}"
    with pytest.raises(FileNotFoundError):
        place_of("gs://bucket/nothing").read_bytes()
    with pytest.raises(StoreError, match="create the bucket"):
        place_of("gs://no-such-bucket/a").write_bytes(b"1")
