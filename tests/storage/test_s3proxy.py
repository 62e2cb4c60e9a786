"""A real store without conditional writes: S3Proxy over a folder, with both of its ways to keep one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.pipeline.delta import TableError
from exporter.pipeline.probe import require_conditional_writes
from exporter.storage.places import place_of
from hangbench.kafka.maven import require_program
from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import JavaProcess
from hangbench.waiting import until
from tests.brokers.jars import s3proxy_jars
from tests.storage.server import ACCESS_KEY, HOST, SECRET_KEY, environment_of, is_open

pytestmark = [pytest.mark.slow, pytest.mark.programs]

WARNINGS_ONLY = """<configuration>
<appender name="errors" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%msg%n</pattern></encoder></appender>
<root level="warn"><appender-ref ref="errors"/></root>
</configuration>"""


@pytest.fixture(params=["filesystem", "filesystem-nio2"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the server, which has a bucket; the environment leads to it."""
    (port,), folder = free_ports(1), tmp_path / "objects"
    (folder / "bucket").mkdir(parents=True)
    properties = {
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.endpoint": f"http://{HOST}:{port}",
        "s3proxy.identity": ACCESS_KEY,
        "s3proxy.credential": SECRET_KEY,
        "jclouds.provider": request.param,
        "jclouds.identity": "unused",
        "jclouds.credential": "unused",
        "jclouds.filesystem.basedir": str(folder),
    }
    (tmp_path / "s3proxy.conf").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    (tmp_path / "logback.xml").write_text(WARNINGS_ONLY)
    java = [require_program("java", "openjdk-17-jre-headless"), "-Xmx256m", "-Dlogback.configurationFile=logback.xml"]
    command = [*java, "-cp", f"{s3proxy_jars()}/*", "org.gaul.s3proxy.Main", "--properties", "s3proxy.conf"]
    server = JavaProcess(command, tmp_path, tmp_path / "log.txt")
    for name, value in environment_of(port).items():
        monkeypatch.setenv(name, value)
    try:
        until(lambda: _accepts(server, port), patience_s=60, status=(tmp_path / "log.txt").read_text)
        yield folder / "bucket"
    finally:
        server.end()


def _accepts(server: JavaProcess, port: int) -> bool:
    assert server.exit_code is None, "S3Proxy has ended"
    return is_open(port)


def test_it_is_refused_for_tables_every_time(objects: Path) -> None:
    """With the reason, though it lists folders as objects that cannot be removed; no object of the probe is left."""
    for number in range(5):
        folder = f"s3://bucket/tables-{number}"
        with pytest.raises(TableError, match=f"^{folder}: this store ignores conditional writes"):
            require_conditional_writes(place_of(folder))

    assert [path for path in objects.rglob("*") if path.is_file()] == []
