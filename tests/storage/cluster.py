"""A standalone cluster of Spark on the loopback, of the programs that PySpark carries: a master and workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

from tests.brokers.process import end_with_parent
from tests.waiting import until

HOST: Final = "127.0.0.1"
HOME: Final = Path(pyspark.__file__).parent
MASTER_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = "Successfully registered with master"


class SparkCluster:
    """`with SparkCluster(folder, workers=2) as cluster:`, each worker with one core."""

    def __init__(self, folder: Path, *, workers: int, memory: str = "1g") -> None:
        self._folder = folder
        self._memory = memory
        self._master = self._start("master", "master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        try:
            found = until(lambda: MASTER_URL.search(self._log("master")))
            assert found is not None
            self.url: str = found[1]
            self._workers = [self._start_worker(number) for number in range(workers)]
        except BaseException:
            _kill(self._master)
            raise

    def __enter__(self) -> SparkCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._workers, self._master):
            _kill(process)

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        options = ["--host", HOST, "--cores", "1", "--memory", self._memory, "--webui-port", "0"]
        options += ["--work-dir", str(self._folder / f"work-{number}"), self.url]
        process = self._start(f"worker-{number}", "worker.Worker", *options)
        until(lambda: REGISTERED in self._log(f"worker-{number}"))
        return process

    def _start(self, name: str, program: str, *options: str) -> subprocess.Popen[bytes]:
        temporary = self._folder / f"temporary-{name}"
        temporary.mkdir(parents=True)
        own = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_DIRS": str(temporary)}
        with (self._folder / f"{name}.txt").open("ab") as log:
            return subprocess.Popen(
                [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{program}", *options],
                env={name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
                | {**own, "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call
            )

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.txt").read_text(errors="replace")

    def executors(self, number: int) -> list[int]:
        """Processes that the worker has started, and that run."""
        return _children(self._workers[number].pid)

    def kill_worker(self, number: int) -> None:
        """SIGKILL, with its executor."""
        for pid in self.executors(number):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._workers[number].kill()
        self._workers[number].wait()


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            if int(parent) == pid and state != "Z":
                found.append(int(path.parent.name))
    return found


def _kill(process: subprocess.Popen[bytes]) -> None:
    """All of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
