"""An operator at a shell with a runbook: pastes its commands one after another, and types yes at a question."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from exporter.commands.context import CONFIG_FILE
from hangbench.kafka.cluster import SHORT_LIVED, KafkaCluster
from hangbench.kafka.second_door import GuardedCluster
from hangbench.waiting import until
from tests import forked
from tests.real_brokers.exporting import Exporter, Series
from tests.runbooks.pages import Command, pages

SettingsFile = Callable[..., Path]
PROGRAM: Final = Path(sys.executable).parent / "kafka-transaction-exporter"
PATIENCE_S: Final = 120
LISTENS: Final = "KAFKA_TRANSACTION_EXPORTER__PUBLISH__LISTEN_ADDRESS"
"""Where the exporter is: its tests choose a free port, which is not in the settings file."""
QUESTION: Final = "Type yes: "

KAFKA_TOOLS: Final = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
"""Kafka's own scripts, as they start their main classes: of 4.3.1, where the tests of the runbooks are at home."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command."""

    status: int
    output: str
    """Standard output."""
    errors: str
    """Standard error, the question and its answer included."""


@dataclass(slots=True)
class Desk:
    """A folder, a PATH with the exporter's and Kafka's programs, and the variables that a runbook needs."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    hurry: Mapping[str, str] = field(default_factory=dict)
    """Subcommand -> options that are added to it, so that a test need not wait for as long as an operator."""

    def __post_init__(self) -> None:
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        if forked.IS_POSSIBLE:
            forked.install(bin_folder / PROGRAM.name)
        else:
            (bin_folder / PROGRAM.name).symlink_to(PROGRAM)

    def has_tools_of(self, cluster: KafkaCluster) -> None:
        """Put Kafka's scripts on the PATH, of the cluster's own version, and the login files that they name."""
        for name in ("client.properties", "admin.properties"):
            (self.folder / name).write_text(f"bootstrap.servers={cluster.bootstrap}\n")
        before_4 = {"kafka-acls.sh": "kafka.admin.AclCommand"} if cluster.version.startswith("3.") else {}
        for script, main_class in {**KAFKA_TOOLS, **before_4}.items():
            path = self.folder / "bin" / script
            path.write_text(f'#!/bin/sh\nexec {shlex.join(cluster._java(*SHORT_LIVED))} {main_class} "$@"\n')
            path.chmod(0o755)

    def run(self, line: str) -> Done:
        """One line in a shell that does not know any other variable, at a terminal where yes is typed when asked."""
        for subcommand, options in self.hurry.items():
            line = re.sub(rf"{PROGRAM.name} {subcommand}(?!\S)", rf"\g<0> {options}", line)
        ours, theirs = pty.openpty()
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-u", "-c", line],
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=theirs,
                cwd=self.folder,
                env={
                    "HOME": str(self.folder),
                    "PATH": f"{self.folder / 'bin'}:{os.defpath}",
                    "LANG": "C.UTF-8",
                    **self.variables,
                    **self._settings(),
                },
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        try:
            return _finished(process, ours)
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    def _settings(self) -> dict[str, str]:
        """Where the program finds the brokers: a file, or `bootstrap.servers` as in the file of the operator's login."""
        if CONFIG_FILE in self.variables or "BOOTSTRAP" not in self.variables:
            return {}
        return {"KAFKA_TRANSACTION_EXPORTER__KAFKA__BOOTSTRAP_SERVERS": self.variables["BOOTSTRAP"]}

    @contextmanager
    def reading(self, name: str, *sections: str) -> Iterator[Operator]:
        """Somebody who pastes every command of a page, or of these sections of it, in their order."""
        wanted = [command for command in pages()[name].commands if not sections or command.section in sections]
        operator = Operator(self, wanted)
        yield operator
        left = wanted[operator.done :]
        assert not left, f"nobody pasted {left[0].page}.md:{left[0].line}: {left[0].text}"


@dataclass(slots=True)
class Operator:
    """Where somebody is on a page."""

    desk: Desk
    commands: Sequence[Command]
    done: int = 0

    @property
    def next_line(self) -> str:
        """The next command."""
        return self.commands[self.done].text

    def pastes(self, *words: str, status: int = 0, shows: str = "", hides: str = "") -> Done:
        """The next command, which must contain these words, end so, and show this and not that."""
        assert self.done < len(self.commands), f"there is no command left with {words}"
        command = self.commands[self.done]
        self.done += 1
        where = f"{command.page}.md:{command.line}: {command.text}"
        assert all(word in command.text for word in words), f"expected {words} at {where}"
        done = self.desk.run(command.text)
        result = f"{where}\nstatus {done.status}\n{done.output}\n{done.errors}"
        assert done.status == status, result
        assert shows in done.output + done.errors, result
        assert not hides or hides not in done.output + done.errors, result
        return done

    def pastes_until(self, holds: Callable[[Done], bool], *words: str, status: int = 0) -> Done:
        """The next command, again and again until its answer is so: brokers take grants over within moments."""
        command = self.commands[self.done]
        self.done += 1
        assert all(word in command.text for word in words), f"expected {words} in {command.text}"
        return until(
            lambda: self.desk.run(command.text),
            lambda done: done.status == status and holds(done),
            patience_s=PATIENCE_S,
        )


def _finished(process: subprocess.Popen[bytes], terminal: int) -> Done:
    """Read both streams until the end, and answer the question."""
    assert process.stdout is not None
    output, errors, answered = b"", b"", 0
    open_streams = {process.stdout.fileno(), terminal}
    deadline = time.monotonic() + PATIENCE_S
    while open_streams:
        ready, _, _ = select.select(list(open_streams), [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"no end within {PATIENCE_S} s: {output!r} {errors!r}"
        for stream in ready:
            try:
                chunk = os.read(stream, 65536)
            except OSError:  # a terminal whose last program is gone
                chunk = b""
            if not chunk:
                open_streams.discard(stream)
            elif stream == terminal:
                errors += chunk
            else:
                output += chunk
        if errors.count(QUESTION.encode()) > answered:
            answered += 1
            os.write(terminal, b"yes\n")
    process.stdout.close()
    return Done(process.wait(PATIENCE_S), output.decode(), errors.decode().replace("\r\n", "\n"))


def value(metrics: dict[str, Series], name: str, *labels: str) -> float:
    return metrics.get(name, {}).get(labels, -1)


def about(desk: Desk, exporter: Exporter, path: Path) -> None:
    """Set the variables that name the exporter and its settings."""
    desk.variables |= {LISTENS: exporter.url.removeprefix("http://"), CONFIG_FILE: str(path)}
    # The exporter of the tests hurries, and a command with its settings would have no time on a busy machine.
    desk.hurry = {
        "find-hanging": "--scan.interval 2m --scan.deadline 100s",
        "once": "--scan.interval 6s --scan.deadline 5s",  # this long for a paused broker
    }


def granted(desk: Desk, guarded: GuardedCluster, diagnosis: Done) -> None:
    """An administrator runs the lines that `doctor` has printed. Administrators use another listener of this cluster."""
    lines = [line for line in diagnosis.output.splitlines() if line.startswith("kafka-acls.sh ")]
    assert lines, diagnosis.output
    for line in lines:
        done = desk.run(line.replace(guarded.door, guarded.bootstrap))
        assert done.status == 0, done
        assert "Adding ACLs" in done.output, done
