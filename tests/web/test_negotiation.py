"""Which representation is sent: real clients' headers, and a table of special cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.web.negotiation import accepts_gzip, choose_representation, prefers_openmetrics
from tests.publication.scenarios import render, stale

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
PROMETHEUS_TEXT = "text/plain;version=0.0.4;q=1,*/*;q=0.5"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS_3, True),
        (PROMETHEUS_2, True),
        (PROMETHEUS_TEXT, False),
        (FIREFOX, False),
        ("*/*", False),
        ("", False),
        ("application/openmetrics-text", True),
        ('APPLICATION/OpenMetrics-Text; VERSION="1.0.0"', True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.3", False),
        ("application/openmetrics-text;q=0.3,text/plain;q=0.2", True),
        ("application/openmetrics-text;q=many", False),
        ("application/openmetrics-text;q=7", False),
        ("image/png", False),
        (",;,=", False),
    ],
)
def test_openmetrics_is_sent_to_clients_that_name_it(accept: str, openmetrics: bool) -> None:  # noqa: FBT001  # a table's column
    """OpenMetrics goes to clients that name its version and do not prefer text; all others get text."""
    assert prefers_openmetrics(accept) is openmetrics


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("GZIP;Q=0.5", True),
        ("*", True),
        ("", False),
        ("identity", False),
        ("deflate", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("gzip;q=0.5, identity;q=0.9", False),
        ("gzip;q=nan", False),
        ("gzip;q=-1", False),
    ],
)
def test_gzip_is_sent_to_clients_that_accept_it(accept_encoding: str, gzip: bool) -> None:  # noqa: FBT001  # a table's column
    """An encoding that was not asked for, or refused by q=0, is never sent."""
    assert accepts_gzip(accept_encoding) is gzip


def test_the_two_choices_are_independent() -> None:
    """Each of the four representations is what its pair of headers gets."""
    exposition = render(stale())
    assert choose_representation(exposition, "", "") is exposition.text
    assert choose_representation(exposition, "", "gzip") is exposition.text_gzip
    assert choose_representation(exposition, PROMETHEUS_3, "") is exposition.openmetrics
    assert choose_representation(exposition, PROMETHEUS_3, "gzip") is exposition.openmetrics_gzip


@given(st.text(), st.text())
def test_no_header_is_an_error(accept: str, accept_encoding: str) -> None:
    prefers_openmetrics(accept)
    accepts_gzip(accept_encoding)
