"""Paths of the pages: `/` and `/incidents` of a cluster, in a fleet below `/clusters/NAME`; `/runbooks`, `/report`."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Final

INCIDENTS: Final = "/incidents"
RUNBOOKS: Final = "/runbooks"
REPORT: Final = "/report"
_CLUSTERS: Final = "/clusters"
ANY_PLACE: Final = "?"
"""Stands for the query of every place without an incident of its own."""
_FIELDS_MAX: Final = 8


def requested_below(cluster: str | None) -> str:
    """The beginning of the paths of a cluster's pages, as a request has them: decoded."""
    return "" if cluster is None else f"{_CLUSTERS}/{cluster}"


def below(cluster: str | None) -> str:
    """Returns the path below a page, for a link."""
    return "" if cluster is None else f"{_CLUSTERS}/{urllib.parse.quote(cluster, safe='')}"


def status_from_incidents(cluster: str | None) -> str:
    """Returns the address of the status page, relative to the list of incidents: a proxy may have a path before both."""
    return "./" if cluster is None else f"../{urllib.parse.quote(cluster, safe='')}"


def incidents_of(cluster: str | None) -> str:
    """Returns the path of the list of incidents, for a link."""
    return f"{below(cluster)}{INCIDENTS}"


def path_of(incident: str, cluster: str | None = None) -> str:
    """Returns the path of an incident's page."""
    return f"{incidents_of(cluster)}/{incident}"


def url_of(external_url: str | None, cluster: str | None, incident: str) -> str | None:
    """Returns the whole address of an incident's page, if it is known."""
    return None if external_url is None else f"{external_url}{path_of(incident, cluster)}"


def query_of(topic: str, partition: int | str, start_offset: int | str | None = None) -> str:
    """Returns the query with which the list of incidents leads to that of a partition, or of its open transaction."""
    fields = {"topic": topic, "partition": partition, "start_offset": start_offset}
    given = {name: value for name, value in fields.items() if value is not None}
    return f"?{urllib.parse.urlencode(given, errors='replace')}"


def queries_in(query: str) -> Iterator[str]:
    """Returns what `query_of` makes of the place in the query of a request, the narrowest first; at last `ANY_PLACE`."""
    try:
        fields = dict(urllib.parse.parse_qsl(query, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return
    topic, partition, start_offset = map(fields.get, ("topic", "partition", "start_offset"))
    if topic is not None and partition is not None:
        if start_offset is not None:
            yield query_of(topic, partition, start_offset)
        yield query_of(topic, partition)
        yield ANY_PLACE
