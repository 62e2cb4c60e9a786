"""An operator's shell in each way of installation: what an alert and its runbook say is pasted into it, and nothing else.

The shell is bash with `-u` in an environment of its own. In the chart's pod the program has only the variables of the
rendered container, in a folder where nobody can write.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from exporter import PROGRAM
from exporter.commands.context import CLUSTERS_FILE, CONFIG_FILE
from tests import forked
from tests.alerts.monitoring import Alert
from tests.helm.chart import NAMESPACE, RELEASE
from tests.runbooks.pages import FIRST_BLOCK, FOLDER, Command, pages

PATIENCE_S: Final = 60
WITHOUT_POD: Final = frozenset({"ExporterDown", "HangingClusterWide"})
"""Reasons of alerts whose first command does not run in the pod: the pod may be gone, or the command writes a file."""
IN_POD: Final = ["exec", "-i", "-n", NAMESPACE, f"deploy/{RELEASE}-{PROGRAM}", "--", PROGRAM]
"""The arguments of kubectl before those of the program; without a terminal."""
READ_ONLY: Final = "/proc"
"""A folder in which nobody makes a file, not even root: as the root of the image is mounted."""
ON_HOST, OWN_LOGIN, IN_CONTAINER, BROKERS = range(4)
"""Places of the fences in the first block of a runbook."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """The result of one shell, with the programs that it started."""

    script: str
    status: int
    output: str
    errors: str
    arguments: list[str] | None
    """Arguments of the program; None where it did not run."""
    variables: dict[str, str]
    """Environment of the first program that the shell started."""
    kubectl: list[str]
    """Arguments of kubectl; empty where it did not run."""


def page_of(alert: Alert) -> str:
    """The name of the runbook to which the delivered alert leads."""
    return PurePosixPath(alert["annotations"]["runbook_url"]).stem


def first_command(alert: Alert) -> Command:
    """The first command below the first block of the alert's runbook."""
    return pages()[page_of(alert)].commands[0]


def variables_in(alert: Alert) -> dict[str, str]:
    """The values that the line `variables` exports, as they are shown: nothing in them has a meaning for the shell."""
    _, export, words = alert["annotations"].get("variables", "").rpartition("export ")
    return dict(word.split("=", 1) for word in shlex.split(words)) if export else {}


def fences(alert: Alert) -> list[str]:
    """The fences of the first block of the alert's runbook: a host, an own login, one in a container, Kafka's own tools."""
    block = FIRST_BLOCK.search((FOLDER / f"{page_of(alert)}.md").read_text(encoding="utf-8"))
    assert block is not None, f"{page_of(alert)}.md has no first block"
    return re.findall(r"^```text\n(.*?)\n```$", block[0], re.DOTALL | re.MULTILINE)


def lines_for(alert: Alert, fence: int | None) -> list[str]:
    """Returns the lines to paste: the alert's, the one for this way of installation where there is one, the command."""
    line = alert["annotations"].get("variables")
    return [
        *([] if line is None else [line]),
        *([] if fence is None else [fences(alert)[fence]]),
        first_command(alert).text,
    ]


def fences_for(alert: Alert, *, has_command: bool, is_pod: bool) -> Sequence[int | None]:
    """The ways of which an operator takes one: where the alert has the command, and needs no own login, none."""
    if not has_command:
        return (ON_HOST, OWN_LOGIN, IN_CONTAINER)
    return (OWN_LOGIN, IN_CONTAINER) if is_pod and alert["labels"]["reason"] in WITHOUT_POD else (None,)


@dataclass(slots=True)
class Shell:
    """A folder with stand-ins of kubectl and docker, and the program, by default one that only notes its arguments."""

    folder: Path
    pod_variables: Mapping[str, str]
    """Environment of the rendered container."""

    def __post_init__(self) -> None:
        self._bin.mkdir(parents=True)
        (self.folder / "client.properties").write_text("bootstrap.servers=127.0.0.1:1\n")
        note_once = f"[ -e {self.folder}/variables ] || env -0 > {self.folder}/variables"
        of_pod = shlex.join(f"{name}={value}" for name, value in self.pod_variables.items())
        self._install(
            "kubectl",
            f"""\
            {note_once}
            printf '%s\\0' "$@" > {self.folder}/kubectl
            while [ "$1" != -- ]; do shift; done
            shift
            cd {READ_ONLY} && exec env -i PATH={self._path} {of_pod} "$@"
            """,
        )
        self._install(
            "docker",
            f"""\
            {note_once}
            while [ "$1" != {PROGRAM} ]; do shift; done
            exec "$@"
            """,
        )
        self._install(
            PROGRAM,
            f"""\
            {note_once}
            printf '%s\\0' "$@" > {self.folder}/arguments
            """,
        )

    def has_program_below(self, root: Path, bootstrap: str) -> None:
        """Puts the real program into its place; the settings files of a host are below `root`."""
        (self.folder / "client.properties").write_text(f"bootstrap.servers={bootstrap}\n")
        forked.install(self.folder / PROGRAM)
        moved = "".join(
            f"""\
            case "${{{name}-}}" in /etc/*) export {name}="{root}${name}" ;; esac
            """
            for name in (CONFIG_FILE, CLUSTERS_FILE)
        )
        self._install(
            PROGRAM,
            f"""\
            {moved}
            exec {self.folder / PROGRAM} "$@"
            """,
        )

    @property
    def _bin(self) -> Path:
        return self.folder / "bin"

    @property
    def _path(self) -> str:
        return f"{self._bin}:{os.defpath}"

    def paste(self, lines: Sequence[str]) -> Pasted:
        """The lines as they are, one after another."""
        for name in ("arguments", "kubectl", "variables"):
            (self.folder / name).unlink(missing_ok=True)
        script = "\n".join(lines)
        shell = subprocess.run(
            ["bash", "-u", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            timeout=PATIENCE_S,
            env={"HOME": str(self.folder), "PATH": self._path, "LANG": "C.UTF-8"},
        )
        variables = dict(each.split("=", 1) for each in self._noted("variables") or [])
        return Pasted(
            script,
            shell.returncode,
            shell.stdout,
            shell.stderr,
            self._noted("arguments"),
            variables,
            self._noted("kubectl") or [],
        )

    def _noted(self, name: str) -> list[str] | None:
        path = self.folder / name
        return path.read_text().split("\0")[:-1] if path.exists() else None

    def _install(self, name: str, script: str) -> None:
        path = self._bin / name
        path.write_text("#!/bin/sh\n" + "\n".join(line.strip() for line in script.splitlines()) + "\n")
        path.chmod(0o755)
