"""A real server of S3 on the loopback: versitygw, whose buckets are folders."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from exporter.storage.objects import ObjectPath
from exporter.storage.places import Place
from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import end_with_parent
from hangbench.waiting import until
from tests.tools import versitygw

HOST: Final = "127.0.0.1"
ACCESS_KEY: Final = "test-access-key"
SECRET_KEY: Final = "secret-that-nobody-must-see"
STOP_TIMEOUT_S: Final = 10


class ObjectStore:
    """One server with its buckets; it has conditional writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root, self._sidecar = folder / "buckets", folder / "sidecar"
        for made in (self._root, self._sidecar):
            made.mkdir(parents=True)
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Again with the same objects, on the same port."""
        self._process = started(
            [
                *(versitygw(), "--quiet", "--port", f"{HOST}:{self.port}"),
                *("posix", "--sidecar", self._sidecar, self._root),
            ],
            self.port,
            self._folder / "log.txt",
            {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
        )

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def new_bucket(self, name: str) -> Path:
        """The folder with its objects, for a look behind the server."""
        bucket = self._root / name
        bucket.mkdir()
        return bucket

    def environment(self, port: int | None = None) -> dict[str, str]:
        """The variables by which every client finds it, or another port of this machine with its keys."""
        return environment_of(port or self.port)


def started(
    command: Sequence[str | Path], port: int, log: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[bytes]:
    """A server that accepts connections on the port, and ends with this process."""
    with log.open("ab") as output:
        server = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call
        )

    def accepts() -> bool:
        assert server.poll() is None, log.read_text()
        return is_open(port)

    until(accepts, patience_s=30)
    return server


def environment_of(port: int) -> dict[str, str]:
    """The variables by which every client finds a server of S3 on this port, with its keys."""
    return {
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as connection:
        return connection.connect_ex((HOST, port)) == 0


def upload(folder: Path, place: Place) -> None:
    for path in folder.rglob("*.parquet"):
        there = place
        for part in path.relative_to(folder).parts:
            there = there / part
        assert isinstance(there, ObjectPath)
        there.write_bytes(path.read_bytes())
