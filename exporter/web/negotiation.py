"""Chooses the representation for Accept and Accept-Encoding, with their q-values (RFC 9110, section 12).

Pure; an invalid header is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter.publication.exposition import Exposition, Representation

_OPENMETRICS = "application/openmetrics-text"
_TEXT_RANGES = ("text/plain", "text/*", "*/*")
_OPENMETRICS_VERSIONS = ("", "1.0.0")
_TEXT_VERSIONS = ("", "0.0.4")


class _Choice(NamedTuple):
    name: str
    version: str
    q: float


def choose_representation(exposition: Exposition, accept: str, accept_encoding: str) -> Representation:
    """The representation for these two headers; plain text if none of them matches."""
    is_gzip = accepts_gzip(accept_encoding)
    if prefers_openmetrics(accept):
        return exposition.openmetrics_gzip if is_gzip else exposition.openmetrics
    return exposition.text_gzip if is_gzip else exposition.text


def prefers_openmetrics(accept: str) -> bool:
    """True if OpenMetrics 1.0.0 is named with a q-value of at least that of the text format.

    A wildcard does not name it: browsers and curl get plain text.
    """
    openmetrics = text = 0.0
    for choice in _choices(accept):
        if choice.name == _OPENMETRICS and choice.version in _OPENMETRICS_VERSIONS:
            openmetrics = max(openmetrics, choice.q)
        elif choice.name in _TEXT_RANGES and choice.version in _TEXT_VERSIONS:
            text = max(text, choice.q)
    return openmetrics > 0 and openmetrics >= text


def accepts_gzip(accept_encoding: str) -> bool:
    """True if gzip is accepted, by name or by wildcard, with a q-value of at least that of identity."""
    weights = {choice.name: choice.q for choice in _choices(accept_encoding)}
    gzip = weights.get("gzip", weights.get("*", 0.0))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _choices(header: str) -> Iterator[_Choice]:
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        values = dict(_parameter(parameter) for parameter in parameters)
        q = _weight(values.get("q", "1"))
        if name and q is not None:
            yield _Choice(name, values.get("version", ""), q)


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip().strip('"')


def _weight(text: str) -> float | None:
    try:
        q = float(text)
    except ValueError:
        return None
    return q if 0 <= q <= 1 else None
