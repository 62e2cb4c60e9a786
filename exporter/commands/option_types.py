"""Parses values of options: numbers of Kafka's protocol, durations, states, verdicts. A wrong one is argparse's error."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from exporter.artifacts.rules import LABEL_NAME, threshold_limits
from exporter.config import values
from exporter.evaluation.verdicts import Verdict
from exporter.snapshot import TransactionState

INTERVAL_MS_MIN = 100
KNOWN_STATES = tuple(state.value for state in TransactionState if state is not TransactionState.UNKNOWN)
UNKNOWN = "-"
"""Shown in a table if no coordinator returned a state."""

T = TypeVar("T")


def argument(parse: Callable[[Any], T]) -> Callable[[str], T]:
    """The parser of a setting's value, with argparse's error."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def number(minimum: int, maximum: int) -> Callable[[str], Any]:
    """Parses a number that fits into the field of Kafka's protocol."""
    return argument(values.whole_number(minimum, maximum))


duration = argument(values.duration_ms)
"""Parses a duration to milliseconds."""
positive_duration = argument(values.positive_duration_ms)
"""Parses a duration above zero to milliseconds."""
rate = argument(values.size_bytes)
"""Parses a number of bytes, here those of a second."""
java_size = argument(values.java_size)
"""A size of memory as Java writes it."""
web_address = argument(values.page_url)
"""A URL of http or https, without user and password: other users see the command line."""


def name_text(text: str) -> str:
    """A name as it is written. A variable of the shell that is not set leaves an empty one."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: is the variable set that names it?")
    return text


def percentage(text: str) -> float:
    """Parses a percentage that leaves something on both sides."""
    try:
        percent = float(text)
    except ValueError:
        percent = 0
    if not 0 < percent < 100:  # noqa: PLR2004
        raise argparse.ArgumentTypeError("must be a percentage above 0 and below 100, such as 99.95")
    return percent


def interval(text: str) -> int:
    """Parses an interval to milliseconds; shorter intervals would load the brokers too much."""
    milliseconds = duration(text)
    if milliseconds < INTERVAL_MS_MIN:
        raise argparse.ArgumentTypeError(f"must be {INTERVAL_MS_MIN} ms at least")
    return milliseconds


def states(*known: str) -> Callable[[str], tuple[str, ...]]:
    """Parses some of the `known` states, such as `Ongoing,PrepareCommit`."""

    def parsed(text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        wrong = [name for name in names if name not in known]
        if wrong or not names:
            named = f"names {wrong[0]!r}, a state that does not exist" if wrong else "names no state"
            raise argparse.ArgumentTypeError(f"{named}; the states are {', '.join(known)}")
        return names

    return parsed


def pattern(text: str) -> re.Pattern[str]:
    """Parses a pattern of whole ids; an empty one matches all of them."""
    try:
        return re.compile(text or ".*", re.DOTALL)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"is not a regular expression: {error}") from error


def verdict(text: str) -> Verdict:
    for known in Verdict:
        if known.label == text:
            return known
    raise argparse.ArgumentTypeError("must be a verdict: " + ", ".join(known.label for known in Verdict))


def temporary_directory(place: Path | str) -> tempfile.TemporaryDirectory[str]:
    """Returns a directory for Spark that ends with its block. Raises OSError where none can be made."""
    try:
        return tempfile.TemporaryDirectory(prefix="kafka-transaction-exporter-", dir=writable_directory(str(place)))
    except argparse.ArgumentTypeError as error:
        raise OSError(f"--temporary: {error}") from None


def writable_directory(text: str) -> str:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a directory: make it first, or name another one")
    if not os.access(text, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written to: name another directory")
    return text


def threshold(text: str) -> tuple[str, str]:
    """`NAME=NUMBER`, of an alerting rule."""
    name, _, value = text.partition("=")
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER, such as fresh_cycles=7")
    least, greatest = threshold_limits(name)
    if float(value) < least or (greatest is not None and float(value) > greatest):
        most = "" if greatest is None else f" and at most {greatest:g}"
        raise argparse.ArgumentTypeError(f"{name} is at least {least:g}{most}, not {value}")
    return name, value


def manifest_name(text: str) -> str:
    """The name of an object of Kubernetes (RFC 1123)."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} has more than small letters, digits, - and .: Kubernetes refuses it"
        )
    return text


def label(text: str) -> tuple[str, str]:
    """`NAME=VALUE` with a name that Prometheus accepts for a label."""
    name, separator, value = text.partition("=")
    if not separator or not re.fullmatch(LABEL_NAME, name):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with the name of a label")
    return name, value
