"""Spark's own master and two workers: separate processes and folders, in which this program is not installed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from tests.brokers.cluster import free_ports
from tests.waiting import until

SPARK_HOME: Final = Path(pyspark.__file__).parent
WORKERS_PYTHON: Final = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
"""Without this project's virtual environment."""
SECRET: Final = "of-the-spark-cluster"


class Standalone:
    """A master that keeps its state in files, and its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, *self._web_ports = free_ports(4)
        self.secret_file = folder / "secret"
        self.secret_file.write_text(SECRET)
        self._conf = folder / "daemons.conf"
        self._conf.write_text(
            f"spark.authenticate true\nspark.authenticate.secret {SECRET}\nspark.network.crypto.enabled true\n"
        )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def log_of(self, name: str) -> str:
        path = self._folder / name / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_master(self) -> None:
        words = ["--port", str(self._port), "--webui-port", str(self._web_ports[0])]
        self._start("master", "org.apache.spark.deploy.master.Master", *words)
        until(lambda: "I have been elected leader" in self.log_of("master"), status=lambda: self.log_of("master"))

    def start_worker(self, number: int) -> None:
        words = ["--cores", "3", "--memory", "2g", "--webui-port", str(self._web_ports[number])]
        name = f"worker-{number}"
        work = str(self._folder / name / "work")
        self._start(name, "org.apache.spark.deploy.worker.Worker", *words, "--work-dir", work, self.master)
        until(lambda: "Successfully registered with master" in self.log_of(name), status=lambda: self.log_of(name))

    def kill(self, name: str) -> None:
        """SIGKILL, for a worker together with its executors."""
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def _start(self, name: str, main: str, *words: str) -> None:
        home = self._folder / name
        home.mkdir(exist_ok=True)
        environment: Mapping[str, str] = {
            "PATH": os.environ["PATH"].replace(str(Path(sys.executable).parent), "/usr/bin"),
            "HOME": str(home),
            "SPARK_LOCAL_DIRS": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            **{key: os.environ[key] for key in ("JAVA_HOME",) if key in os.environ},
        }
        command = [str(SPARK_HOME / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--properties-file"]
        with (home / "log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*command, str(self._conf), *words],
                cwd=home,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """A master and two workers, ended with their executors."""
    cluster = Standalone(folder)
    try:
        cluster.start_master()
        for number in (1, 2):
            cluster.start_worker(number)
        yield cluster
    finally:
        cluster.close()
