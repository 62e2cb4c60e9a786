"""Paths of the pages: `/` and `/incidents` of a cluster, in a fleet below `/clusters/NAME`; `/runbooks`, `/report`."""

from __future__ import annotations

import urllib.parse
from typing import Final

INCIDENTS: Final = "/incidents"
RUNBOOKS: Final = "/runbooks"
REPORT: Final = "/report"
_CLUSTERS: Final = "/clusters"


def requested_below(cluster: str | None) -> str:
    """The beginning of the paths of a cluster's pages, as a request has them: decoded."""
    return "" if cluster is None else f"{_CLUSTERS}/{cluster}"


def below(cluster: str | None) -> str:
    """Returns the path below a page, for a link."""
    return "" if cluster is None else f"{_CLUSTERS}/{urllib.parse.quote(cluster, safe='')}"


def path_of(incident: str, cluster: str | None = None) -> str:
    """Returns the path of an incident's page."""
    return f"{below(cluster)}{INCIDENTS}/{incident}"


def url_of(external_url: str | None, cluster: str | None, incident: str) -> str | None:
    """Returns the whole address of an incident's page, if it is known."""
    return None if external_url is None else f"{external_url}{path_of(incident, cluster)}"
