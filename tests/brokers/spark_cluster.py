"""Spark's own master and workers: processes and folders of their own, in which this program is not installed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import end_with_parent
from hangbench.waiting import until

HOST: Final = "127.0.0.1"
SPARK_HOME: Final = Path(pyspark.__file__).parent
WORKERS_PYTHON: Final = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
"""Without this project's virtual environment."""


class SparkCluster:
    """`with SparkCluster(folder) as cluster:`, two workers with so many cores each; with a `secret` it asks for that."""

    def __init__(self, folder: Path, *, cores: int = 1, memory: str = "1g", secret: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._cores = cores
        self._memory = memory
        (port,) = free_ports(1)
        self.url = f"spark://{HOST}:{port}"
        self.secret_file = folder / "secret"
        self.secret_file.write_text(secret)
        self._conf = folder / "daemons.conf"
        protected = f"spark.authenticate true\nspark.authenticate.secret {secret}\nspark.network.crypto.enabled true\n"
        self._conf.write_text(protected if secret else "")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> SparkCluster:
        try:
            self.start_master()
            for number in range(2):
                self._start_worker(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    def start_master(self) -> None:
        """On its port, also again: it then knows nothing of what ran before."""
        self._start("master", "master.Master", "--host", HOST, "--port", self.url.rpartition(":")[2])
        until(lambda: "I have been elected leader" in self._log("master"), status=lambda: self._log("master"))

    def _start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        work = str(self._folder / name / "work")
        size = ["--cores", str(self._cores), "--memory", self._memory]
        self._start(name, "worker.Worker", "--host", HOST, *size, "--work-dir", work, self.url)
        until(lambda: "Successfully registered with master" in self._log(name), status=lambda: self._log(name))

    def executors(self, worker: str) -> list[int]:
        """Processes that the worker has started, and that run."""
        return _children(self._processes[worker].pid)

    def kill(self, name: str) -> None:
        """SIGKILL, for a worker together with its executors."""
        process = self._processes.pop(name)
        for pid in (process.pid, *_children(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL) if pid == process.pid else os.kill(pid, signal.SIGKILL)
        process.wait()

    def _log(self, name: str) -> str:
        return (self._folder / name / "log").read_text(errors="replace")

    def _start(self, name: str, main: str, *words: str) -> None:
        home = self._folder / name
        home.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"].replace(str(Path(sys.executable).parent), "/usr/bin"),
            "HOME": str(home),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_DIRS": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": HOST,
            **{key: os.environ[key] for key in ("JAVA_HOME",) if key in os.environ},
        }
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *words]
        with (home / "log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*command, "--webui-port", "0", "--properties-file", str(self._conf)],
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call
            )


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            if int(parent) == pid and state != "Z":
                found.append(int(path.parent.name))
    return found
