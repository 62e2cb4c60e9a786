"""Runs a detector that is a command: it gets the question in its environment, and prints its answer as JSON.

The README states both.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeGuard

from hangbench.detector import ONE_PASS, Detector, Look, Question, Request, Response, Row, Says, When
from hangbench.kafka.second_door import PASSWORD, java_login

FORMAT: Final = 1
EXTRA_PATIENCE_S: Final = 60
"""Beyond the patience of the question, for a program to start and to end."""
SENTENCE_MAX: Final = 300


class AnswerError(Exception):
    """The answer is not what the README states; the sentence says where."""


class CommandDetector(Detector):
    """A detector that is run once for each question."""

    def __init__(self, name: str, command: Sequence[str], *, moments: Mapping[When, Request] = ONE_PASS) -> None:
        super().__init__(name)
        self._command = tuple(command)
        self.moments = moments

    @contextmanager
    def watching(self, question: Question) -> Iterator[Look]:
        with tempfile.TemporaryDirectory(prefix="hangbench-") as folder:
            config = Path(folder, "client.properties")
            config.write_text(_properties(question), encoding="utf-8")
            environment = {**os.environ, **environment_of(question), "HANGBENCH_CONFIG": str(config)}
            yield lambda: self._run(question, environment)

    def _run(self, question: Question, environment: Mapping[str, str]) -> Response:
        began = time.monotonic()
        try:
            run = subprocess.run(
                self._command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=question.patience_s + EXTRA_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            return Response(death=f"no answer within {expired.timeout:g} s", seconds=time.monotonic() - began)
        except OSError as error:
            return Response(death=f"it cannot be started: {error}", seconds=time.monotonic() - began)
        seconds = time.monotonic() - began
        if run.returncode != 0:
            return Response(death=_last_sentence(run.stderr) or f"exit status {run.returncode}", seconds=seconds)
        try:
            rows, is_complete = parsed(run.stdout)
        except AnswerError as error:
            return Response(death=f"its answer cannot be read: {error}", seconds=seconds)
        return Response(rows=rows, is_complete=is_complete, seconds=seconds)


def environment_of(question: Question) -> dict[str, str]:
    """The question as a command finds it."""
    asked = {
        "BOOTSTRAP": question.bootstrap,
        "BROKER_IDS": ",".join(map(str, question.broker_ids)),
        "TOPIC": question.topic or "",
        "PARTITION": "" if question.partition is None else str(question.partition),
        "USER": question.user or "",
        "PASSWORD": "" if question.user is None else PASSWORD,
        "KAFKA_VERSION": question.cluster.version,
        "JAVA": shlex.join(question.cluster.tool_java),
        "REQUEST_TIMEOUT_MS": str(question.request_timeout_ms),
        "PATIENCE_MS": str(question.patience_s * 1000),
        "GRACE_MS": "" if question.grace_ms is None else str(question.grace_ms),
    }
    return {f"HANGBENCH_{name}": value for name, value in asked.items()}


def parsed(printed: str) -> tuple[dict[Row, Says], bool]:
    """(what it says of each transaction, whether it has seen everything). Raises AnswerError."""
    try:
        answer = json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"it is no JSON: {error}") from error
    if not isinstance(answer, dict) or answer.get("hangbench") != FORMAT:
        raise AnswerError(f'it is not an object with "hangbench": {FORMAT}')
    transactions, is_complete = answer.get("transactions"), answer.get("complete", True)
    if not isinstance(transactions, list) or not isinstance(is_complete, bool):
        raise AnswerError('"transactions" must be a list, and "complete" true or false')
    return dict(_row(number, each) for number, each in enumerate(transactions)), is_complete


def _row(number: int, said: Any) -> tuple[Row, Says]:
    where = f"transactions[{number}]"
    if not isinstance(said, dict):
        raise AnswerError(f"{where} is not an object")
    topic, partition, producer_id = said.get("topic"), said.get("partition"), said.get("producer_id")
    if not (isinstance(topic, str) and _is_number(partition) and (producer_id is None or _is_number(producer_id))):
        raise AnswerError(f"{where} needs a topic (text), a partition (number) and a producer_id (number, or null)")
    try:
        return (topic, partition, producer_id), Says(said.get("says"))
    except ValueError as error:
        raise AnswerError(f"{where}.says must be one of {', '.join(each.value for each in Says)}") from error


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _properties(question: Question) -> str:
    """A properties file as Java's clients read it."""
    login = "" if question.user is None else java_login(question.user)
    limits = f"default.api.timeout.ms={question.patience_s * 1000}\nrequest.timeout.ms={question.patience_s * 1000}\n"
    return login + limits


def _last_sentence(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1][:SENTENCE_MAX] if lines else ""
