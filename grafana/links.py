"""Links to the other dashboards, which keep the chosen variables."""

from __future__ import annotations

from typing import Final

from grafana.page import Json

OVERVIEW, PARTITION, FLEET = "kafka-transactions-overview", "kafka-transactions-partition", "kafka-transactions-fleet"
"""The uids: they are in bookmarks and in alerts, and stay."""

_KEPT: Final = (
    "${datasource:queryparam}&${job:queryparam}&${bootstrap_server:queryparam}&${runbooks:queryparam}"
    "&${__url_time_range}"
)
_CLUSTER: Final = "var-cluster=${__data.fields.linked_cluster}"
"""Of a row that `queries.linked` made."""
_HERE: Final = f"var-topic=${{__data.fields.topic}}&var-partition=${{__data.fields.partition}}&{_CLUSTER}"


def to_partition(*, instance: str = "var-instance=${__data.fields.instance}") -> Json:
    """From a row with a topic and a partition to its page, as the exporter of the row sees it."""
    return {"title": "Details of this partition", "url": f"/d/{PARTITION}?{_HERE}&{instance}&{_KEPT}"}


def from_alert() -> Json:
    """The same from an alert, which has no exporter: with the exporters that were chosen."""
    return to_partition(instance="${instance:queryparam}")


def to_exporter() -> Json:
    """From a row with an exporter to the overview of it alone."""
    return {
        "title": "Overview of this cluster",
        "url": f"/d/{OVERVIEW}?{_CLUSTER}&var-instance=${{__data.fields.instance}}&{_KEPT}",
    }
