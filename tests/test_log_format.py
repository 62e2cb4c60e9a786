"""Log lines: one per record in every format, whatever it contains."""

from __future__ import annotations

import json
import logging
import re

import pytest

from exporter.log_format import formatter_of

NASTY = 'broker "a\\b" said\nts=0 level=info\x1b[2J = caf\u00e9 \u202e'


def record(message: str, *, subject: str | None = None, error: Exception | None = None) -> logging.LogRecord:
    made = logging.LogRecord("exporter", logging.WARNING, "file.py", 1, message, None, None)
    made.created = 1_800_000_000.25
    if subject is not None:
        made.subject = subject
    if error is not None:
        made.exc_info = (type(error), error, None)
    return made


def test_logfmt_quotes_what_needs_it() -> None:
    """Bare words stay bare; everything else is a JSON string."""
    line = formatter_of("auto", on_terminal=False).format(record("cycle failed: no broker", subject="cycle"))

    assert line == (
        'ts=2027-01-15T08:00:00.250+00:00 level=warning logger=exporter subject=cycle msg="cycle failed: no broker"'
    )


def test_json_is_one_object_a_line() -> None:
    """The same keys, and a traceback among them."""
    line = formatter_of("json", on_terminal=True).format(record(NASTY, error=ValueError("why\nnot")))

    assert "\n" not in line
    fields = json.loads(line)
    assert fields["msg"] == NASTY
    assert fields["error"].endswith("ValueError: why\nnot")


@pytest.mark.parametrize(
    ("log_format", "begins"),
    [
        (
            "logfmt",
            'ts=2027-01-15T08:00:00.250+00:00 level=warning logger=exporter cluster="50% of\\nall" subject=cycle ',
        ),
        (
            "json",
            '{"ts": "2027-01-15T08:00:00.250+00:00", "level": "warning", "logger": "exporter", "cluster": "50% of\\nall"',
        ),
    ],
)
def test_the_cluster_s_name_is_a_key_of_every_line(log_format: str, begins: str) -> None:
    """As it is configured, in the same place always."""
    line = formatter_of(log_format, on_terminal=True, cluster="50% of\nall").format(record("ended", subject="cycle"))

    assert line.startswith(begins)


def test_on_a_terminal_the_cluster_s_name_is_before_the_sentence() -> None:
    """The name has no special format, and cannot end the line."""
    line = formatter_of("text", on_terminal=True, cluster="50% of\nall").format(record("ended"))

    assert line.endswith(" WARNING 50% of\\nall: ended")


@pytest.mark.parametrize(("log_format", "on_terminal"), [("text", False), ("auto", True), ("logfmt", True)])
def test_nothing_in_a_line_ends_it_or_commands_a_terminal(log_format: str, *, on_terminal: bool) -> None:
    """Names come from the cluster: they must not forge a line."""
    line = formatter_of(log_format, on_terminal=on_terminal).format(record(NASTY))

    assert re.search(r"[\x00-\x1f\x7f\u202e]", line) is None


def test_a_terminal_gets_time_level_and_sentence() -> None:
    """No machine's words on a terminal."""
    line = formatter_of("auto", on_terminal=True).format(record("ended", subject="cycle"))

    assert re.fullmatch(r"\d\d:\d\d:\d\d WARNING ended", line)
