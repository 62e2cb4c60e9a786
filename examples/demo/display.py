"""What `/metrics` says after a cycle, read as Prometheus reads it and shown in a few lines."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections import defaultdict
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[str, list[tuple[dict[str, str], float]]]


@dataclass(frozen=True)
class Cycle:
    """One snapshot as published."""

    snapshot_at: float
    read: int
    unread: int
    late: int
    longest_s: dict[str, float]
    """Topic-partition -> longest duration, of the partitions with an open transaction."""
    suspects: tuple[str, ...]

    @property
    def result(self) -> tuple[object, ...]:
        """Returns the parts whose change is worth a line: healthy transactions begin and end in every cycle."""
        return self.read, self.unread, self.late, self.suspects


def where_the_incident_is(url: str, topic: str, partition: int) -> str:
    """The addresses of that partition's incident, to which the exporter redirects while it is open; else of their list."""
    try:
        with urllib.request.urlopen(f"{url}/incidents?topic={topic}&partition={partition}", timeout=5) as response:
            found = str(response.url)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        found = ""
    is_page = found.startswith(f"{url}/incidents/")
    return f"{found}, as a post-mortem: {found}.md" if is_page else f"{url}/incidents"


def read_cycle(url: str, *, wait_s: float) -> Cycle | None:
    """What the exporter publishes now; None when it does not answer, or has no snapshot, within `wait_s` seconds."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=wait_s) as answer:
                cycle = _cycle(answer.read().decode())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            cycle = None
        if cycle is not None or time.monotonic() > deadline:
            return cycle
        time.sleep(0.05)


def _cycle(exposition: str) -> Cycle | None:
    samples: Samples = defaultdict(list)
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            samples[sample.name].append((sample.labels, sample.value))
    if not samples["kafka_open_transactions"]:
        return None
    answers = {labels["answer"]: int(value) for labels, value in samples["kafka_transaction_exporter_partitions"]}
    durations = by_partition(samples, "kafka_partition_max_active_transaction_duration_seconds")
    opened = by_partition(samples, "kafka_partition_open_transactions")
    return Cycle(
        snapshot_at=samples["kafka_transaction_exporter_snapshot_timestamp_seconds"][0][1],
        read=answers["read"],
        unread=answers["unauthorized"] + answers["unavailable"],
        late=int(samples["kafka_late_transactions"][0][1]),
        longest_s={partition: durations[partition] for partition in opened},
        suspects=tuple(_in_words(labels) for labels, _ in samples["kafka_suspect_transaction_start_timestamp_seconds"]),
    )


def _in_words(labels: dict[str, str]) -> str:
    """Names a suspect; the label `transactional_id` is empty while no coordinator has said it."""
    named = f"transactional id {labels['transactional_id']!r}" if labels["transactional_id"] else "its id is unknown"
    return (
        f"{labels['topic']}-{labels['partition']} {labels['verdict']}: {named}, producer {labels['producer_id']}, "
        f"offset {labels['start_offset']}"
    )


def by_partition(samples: Samples, name: str) -> dict[str, float]:
    """Topic-partition -> value of a metric."""
    return {f"{labels['topic']}-{labels['partition']}": value for labels, value in samples[name]}


def shown(number: int, cycle: Cycle) -> str:
    """A cycle in a few lines."""
    at = time.strftime("%H:%M:%S", time.localtime(cycle.snapshot_at))
    opened = "  ".join(f"{partition} {seconds:.1f}s" for partition, seconds in sorted(cycle.longest_s.items()))
    head = (
        f"cycle {number:<3} {at}  {cycle.read} partitions read, {cycle.unread} unread, "
        f"{len(cycle.longest_s)} with open transactions, {cycle.late} late, {len(cycle.suspects)} suspect"
    )
    lines = [head, f"    open: {opened or 'none'}", *(f"    SUSPECT {suspect}" for suspect in cycle.suspects)]
    return "\n".join(lines)
