"""Runs a detector that is a command: it gets the question in its environment, and prints its answer as JSON.

The README states both.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeGuard, TypeVar

from hangbench.detector import ONE_PASS, Detector, Look, Question, Request, Response, Row, Says, When
from hangbench.kafka.process import end_with_parent
from hangbench.kafka.second_door import PASSWORD, java_login

Key = TypeVar("Key")
Word = TypeVar("Word")
FORMAT: Final = 1
EXTRA_PATIENCE_S: Final = 60
"""Beyond the patience of the question, for a program to start and to end."""
SENTENCE_MAX: Final = 300


class AnswerError(Exception):
    """There is no answer that can be judged; the sentence says why."""


class UnreadableAnswerError(AnswerError):
    """It is not what the README states."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"its answer cannot be read: {fault}")


class CommandDetector(Detector):
    """A detector that is run once for each question."""

    def __init__(self, name: str, command: Sequence[str], *, moments: Mapping[When, Request] = ONE_PASS) -> None:
        super().__init__(name)
        self._command = tuple(command)
        self.moments = moments

    @contextmanager
    def watching(self, question: Question) -> Iterator[Look]:
        with environment_for(question) as environment:
            yield lambda: self._run(question, environment)

    def _run(self, question: Question, environment: Mapping[str, str]) -> Response:
        began = time.monotonic()
        try:
            rows, is_complete = parsed(printed_by(self._command, environment, question))
        except AnswerError as error:
            return Response(death=str(error), seconds=time.monotonic() - began)
        return Response(rows=rows, is_complete=is_complete, seconds=time.monotonic() - began)


@contextmanager
def environment_for(question: Question) -> Iterator[dict[str, str]]:
    """The whole environment of a command, within which its file of properties exists."""
    with tempfile.TemporaryDirectory(prefix="hangbench-") as folder:
        config = Path(folder, "client.properties")
        config.write_text(_properties(question), encoding="utf-8")
        yield {**os.environ, **environment_of(question), "HANGBENCH_CONFIG": str(config)}


def printed_by(command: Sequence[str], environment: Mapping[str, str], question: Question) -> str:
    """Runs the command; returns what it prints. No process of it is left afterwards. Raises AnswerError."""
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # it and all that it starts are one group
            preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see there
        )
    except OSError as error:
        raise AnswerError(f"it cannot be started: {error}") from error
    with process:
        try:
            printed, complaint = process.communicate(timeout=question.patience_s + EXTRA_PATIENCE_S)
        except subprocess.TimeoutExpired as expired:
            raise AnswerError(f"no answer within {expired.timeout:g} s") from expired
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        raise AnswerError(_last_sentence(complaint) or f"exit status {process.returncode}")
    return printed


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
    transactions, is_complete = list_in(printed, "transactions")
    return once(map(_row, itertools.count(), transactions)), is_complete


def once(rows: Iterable[tuple[Key, Word]]) -> dict[Key, Word]:
    """The rows by what each is about. Raises UnreadableAnswerError where two of them contradict each other."""
    found: dict[Key, Word] = {}
    for about, word in rows:
        if found.setdefault(about, word) != word:
            raise UnreadableAnswerError(f"it has two rows about {about}, with different words")
    return found


def list_in(printed: str, name: str) -> tuple[list[Any], bool]:
    """(the list of this name in an answer, whether the detector has seen everything). Raises AnswerError."""
    try:
        answer = json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswerError(f"it is no JSON: {error}") from error
    if not isinstance(answer, dict) or answer.get("hangbench") != FORMAT:
        raise UnreadableAnswerError(f'it is not an object with "hangbench": {FORMAT}')
    rows, is_complete = answer.get(name), answer.get("complete", True)
    if not isinstance(rows, list) or not isinstance(is_complete, bool):
        raise UnreadableAnswerError(f'"{name}" must be a list, and "complete" true or false')
    return rows, is_complete


def _row(number: int, said: Any) -> tuple[Row, Says]:
    where = f"transactions[{number}]"
    if not isinstance(said, dict):
        raise UnreadableAnswerError(f"{where} is not an object")
    topic, partition, producer_id = said.get("topic"), said.get("partition"), said.get("producer_id")
    if not (isinstance(topic, str) and is_number(partition) and (producer_id is None or is_number(producer_id))):
        needs = "a topic (text), a partition (number) and a producer_id (number, or null)"
        raise UnreadableAnswerError(f"{where} needs {needs}")
    try:
        return (topic, partition, producer_id), Says(said.get("says"))
    except ValueError as error:
        words = ", ".join(each.value for each in Says)
        raise UnreadableAnswerError(f"{where}.says must be one of {words}") from error


def is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _properties(question: Question) -> str:
    """A properties file as Java's clients read it."""
    login = "" if question.user is None else java_login(question.user)
    limits = f"default.api.timeout.ms={question.patience_s * 1000}\nrequest.timeout.ms={question.patience_s * 1000}\n"
    return login + limits


def _last_sentence(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1][:SENTENCE_MAX] if lines else ""
