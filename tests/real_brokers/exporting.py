"""Runs the exporter as users do: in its own process, read over HTTP."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from prometheus_client.parser import text_string_to_metric_families

from exporter.cli import main
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.ports import free_ports
from hangbench.waiting import until
from tests import forked

PATIENCE_S = 60
SUSPECTS = "kafka_suspect_transaction_start_timestamp_seconds"
Series = dict[tuple[str, ...], float]


class Exporter:
    """A running `serve`."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str) -> tuple[int, str]:
        """(status, body)."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> dict[str, Series]:
        """Metric -> label values -> value."""
        found: dict[str, Series] = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        return found

    def until(self, seen: Callable[[dict[str, Series]], bool]) -> dict[str, Series]:
        """The first metrics for which `seen` holds."""
        return until(self.metrics, seen, patience_s=PATIENCE_S, pause_s=0.05, status=lambda: self.log)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "exporter", *arguments]


def ended(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command, at its end: without a terminal, its home and with it its audit log in `folder`."""
    environment = {"PATH": "/usr/bin:/bin", **environment, "HOME": str(folder)}
    return forked.run(command(*arguments), timeout_s=120, text=True, env=environment)


def called(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same within this process, which costs a fifth: for results, not for what only a process has."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, {"PATH": "/usr/bin:/bin", **environment, "HOME": str(folder)}, clear=True),
        Path(os.devnull).open() as nothing,
        patch.object(sys, "stdin", nothing),
        _logging_restored(),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            status = main(arguments)
        except SystemExit as ending:
            status = int(ending.code or 0)
    return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())


@contextmanager
def _logging_restored() -> Iterator[None]:
    """Logging as at the start of a process, and afterwards as it was."""
    root = logging.getLogger()
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, ("kafka", "uvicorn")))}
    handlers, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = handlers
        for logger, level in levels.items():
            logger.setLevel(level)


@contextmanager
def serving(
    bootstrap: str | None,
    folder: Path,
    *,
    config_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    start: type[subprocess.Popen[bytes]] = forked.Process,
    **settings: str,
) -> Iterator[Exporter]:
    """`serve` against `bootstrap` at a cycle every half second, ended by its own pid.

    `start` is Popen itself for a test that looks at the process from outside. A dot in the name of a setting is two
    underscores here. What `config_file` holds is not given by flags as well.
    """
    (port,) = free_ports(1)
    in_file = "" if config_file is None else config_file.read_text()
    chosen = {
        "publish.listen_address": f"127.0.0.1:{port}",
        **({} if "scan" in in_file else {"scan.interval": "500ms", "scan.deadline": "400ms"}),
        "state.file": str(folder / "state.json"),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items()]
    if bootstrap is not None:
        flags.append(f"--bootstrap-server={bootstrap}")
    if config_file is not None:
        flags.append(f"--config.file={config_file}")
    log = folder / f"exporter-{port}.log"
    with log.open("wb") as output:
        process = start(
            command("serve", *flags),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(folder), **(environment or {})},
        )
    exporter = Exporter(process, f"http://127.0.0.1:{port}", log)
    try:
        until(lambda: _listens(exporter), patience_s=PATIENCE_S, status=lambda: exporter.log)
        yield exporter
    finally:
        process.kill()
        process.wait()


def _listens(exporter: Exporter) -> bool:
    try:
        exporter.get("/-/healthy")
    except (urllib.error.URLError, ConnectionError):
        assert exporter.process.poll() is None, exporter.log
        return False
    return True


def run(folder: Path, *arguments: str, as_process: bool = False) -> str:
    """Everything that a command says."""
    made = (ended if as_process else called)(folder, *arguments)
    return made.stdout + made.stderr


def metrics(url: str) -> str:
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


AT_ONCE: Final = {"KAFKA_TRANSACTION_EXPORTER__BLOCKED__AFTER": "1ms"}
"""Transactions of tests are young, and a young one holds nobody yet."""


def ask_why(cluster: KafkaCluster, folder: Path, *question: str) -> dict[str, Any]:
    """The answer of `why` to this question."""
    done = called(folder, "why", "--bootstrap-server", cluster.bootstrap, *question, "--format", "json", **AT_ONCE)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def suspects_on(metrics: dict[str, Series], topic: str) -> list[tuple[str, ...]]:
    """The labels of each suspect on a topic, which is the first of them."""
    return [labels for labels in metrics.get(SUSPECTS, {}) if labels[0] == topic]
