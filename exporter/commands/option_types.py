"""Parses values of options: numbers of Kafka's protocol, durations, verdicts. A wrong one is argparse's error."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeVar

from exporter.config import values
from exporter.evaluation.verdicts import Verdict

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
INTERVAL_MS_MIN = 100


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
"""In milliseconds."""
web_address = argument(values.page_url)
"""A URL of http or https, without user and password: other users see the command line."""


def interval(text: str) -> int:
    """In milliseconds; shorter intervals would load the brokers too much."""
    milliseconds = duration(text)
    if milliseconds < INTERVAL_MS_MIN:
        raise argparse.ArgumentTypeError(f"must be {INTERVAL_MS_MIN} ms at least")
    return milliseconds


def verdict(text: str) -> Verdict:
    for known in Verdict:
        if known.label == text:
            return known
    raise argparse.ArgumentTypeError("must be a verdict: " + ", ".join(known.label for known in Verdict))
