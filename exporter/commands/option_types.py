"""Parses values of options: numbers of Kafka's protocol, durations, verdicts. A wrong one is argparse's error."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from exporter.config import values
from exporter.evaluation.verdicts import Verdict

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
INTERVAL_MS_MIN = 100


def number(minimum: int, maximum: int) -> Callable[[str], int]:
    """Parses a number that fits into the field of Kafka's protocol."""
    within = values.whole_number(minimum, maximum)

    def parse(text: str) -> int:
        try:
            return int(within(text))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def interval(text: str) -> int:
    """In milliseconds; shorter intervals would load the brokers too much."""
    milliseconds = duration(text)
    if milliseconds < INTERVAL_MS_MIN:
        raise argparse.ArgumentTypeError(f"must be {INTERVAL_MS_MIN} ms at least")
    return milliseconds


def duration(text: str) -> int:
    """In milliseconds."""
    try:
        return values.duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def web_address(text: str) -> str | None:
    """A URL of http or https, without user and password: other users see the command line."""
    try:
        return values.page_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def verdict(text: str) -> Verdict:
    for known in Verdict:
        if known.label == text:
            return known
    raise argparse.ArgumentTypeError("must be a verdict: " + ", ".join(known.label for known in Verdict))
