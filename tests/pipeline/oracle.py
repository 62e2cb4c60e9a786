"""The tables that a history must give, by plain loops over its rows: written from docs/pipeline.md, without the pipeline.

Instants are milliseconds since the epoch.
"""

from __future__ import annotations

import itertools
import re
import urllib.parse
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.evaluation.verdicts import Verdict

HOUR_MS: Final = 3_600_000
BEGINNING_MS: Final = 1_498_608_000_000
NAME: Final = re.compile(r"(\d+)-(\d+)-.*\.parquet")
SOURCES: Final = ("first_seen", "last_write", "transaction_log", "coordinator", "not_open_before")
EXACT: Final = SOURCES[2:4]
ORDINARY: Final = [verdict.label for verdict in Verdict if not verdict.is_suspect]
SUSPECTS: Final = [verdict.label for verdict in Verdict if verdict.is_suspect]
HANGING: Final = [verdict.label for verdict in Verdict if verdict.is_hanging]
GREATEST: Final = ("duration_ms", "idle_ms", "is_late")
JOINED_MS: Final = 600_000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """The rows of all files that count."""

    observations: Mapping[str, Sequence[Row]]
    cycles: Mapping[str, Sequence[Row]]


def read(folder: Path, now_ms: int) -> History:
    """By cluster. Left out: damaged files, those of a wrong clock, and cycles without their observations."""
    tables: dict[str, dict[str, list[Row]]] = {"observations": {}, "cycles": {}}
    for table, files in tables.items():
        for path in sorted((folder / "v1" / table).rglob("*.parquet")):
            name = NAME.fullmatch(path.name)
            assert name is not None
            if int(name[1]) >= BEGINNING_MS and int(name[2]) <= now_ms + HOUR_MS:
                with suppress(pa.ArrowException):
                    files["/".join(path.parts[-3:])] = pq.ParquetFile(path).read().to_pylist()
    by_cluster: dict[str, dict[str, list[Row]]] = {"observations": defaultdict(list), "cycles": defaultdict(list)}
    for table, files in tables.items():
        for place, rows in files.items():
            if place in tables["observations"]:
                cluster_id = urllib.parse.unquote(place.partition("/")[0].removeprefix("cluster_id="))
                by_cluster[table][cluster_id] += [
                    {key: milliseconds(value) if isinstance(value, datetime) else value for key, value in row.items()}
                    for row in rows
                ]
    return History(**by_cluster)


def milliseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


@dataclass(slots=True)
class Cycles:
    """Which instants of a cluster prove that a partition was read."""

    writers: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    unread: dict[int, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    instants: list[int] = field(default_factory=list)

    def __init__(self, rows: Iterable[Row]) -> None:
        self.writers, self.unread = defaultdict(set), defaultdict(lambda: defaultdict(set))
        for row in rows:
            self.writers[row["taken_at"]].add(row["writer"])
            for name in row["unread"]:
                self.unread[row["taken_at"]][name].add(row["writer"])
        self.instants = sorted(self.writers)

    def end_of(self, partition: str, last_seen: int) -> tuple[int | None, bool]:
        """(the first later instant at which an exporter read the partition, whether it is lost from view)."""
        later = self.instants[bisect_right(self.instants, last_seen) :]
        for instant in later:
            if self.unread[instant][partition] != self.writers[instant]:
                return instant, False
        return None, bool(later)


def transactions(history: History) -> dict[str, list[Row]]:
    """By cluster, in the columns and the order of the table, but for those from the transaction log."""
    return {
        cluster_id: _transactions(cluster_id, rows, Cycles(history.cycles.get(cluster_id, ())))
        for cluster_id, rows in history.observations.items()
        if rows
    }


def _transactions(cluster_id: str, observations: Iterable[Row], cycles: Cycles) -> list[Row]:
    names: dict[int, str] = {}
    places: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in observations:
        if row["transactional_id"] is not None:
            names[row["producer_id"]] = max(row["transactional_id"], names.get(row["producer_id"], ""))
        key = ("topic", "partition", "producer_id", "start_offset")
        place = (*(row[name] for name in key), row.get("topic_id"))
        places[place].append(row)
    whole: dict[tuple[Any, ...], list[tuple[Row, Row]]] = defaultdict(list)
    for place, rows in places.items():
        for seen in _apart(rows):
            one, shared = _partition_transaction(place, seen, cycles)
            alone = None if one["exact_started_at"] is not None else place
            whole[shared["producer_id"], shared["producer_epoch"], one["exact_started_at"], alone].append((one, shared))
    return sorted(
        (_transaction(cluster_id, members, names) for members in whole.values()),
        key=lambda row: (row["producer_id"], row["started_at"], order(row["partitions"][0])),
    )


def _apart(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Rows of one key by their exact start, where it has several."""
    starts = {row["started_at"] for row in rows if row["start_source"] in EXACT}
    if len(starts) < 2:
        return [list(rows)]
    at: dict[int, int] = {}
    for row in rows:
        if row["start_source"] in EXACT:
            at[row["taken_at"]] = min(row["started_at"], at.get(row["taken_at"], row["started_at"]))
    instants = sorted(at)
    apart: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        following = bisect_left(instants, row["taken_at"])
        owner = at[instants[min(following, len(instants) - 1)]]
        apart[row["started_at"] if row["start_source"] in EXACT else owner].append(row)
    return apart.values()


def _partition_transaction(place: tuple[Any, ...], rows: Sequence[Row], cycles: Cycles) -> tuple[Row, Row]:
    """(its row in the array `partitions`, what belongs to the transaction)."""
    topic, partition, producer_id, start_offset, topic_id = place
    first_seen: dict[str, int] = {}
    for row in rows:
        first_seen[row["verdict"]] = min(row["taken_at"], first_seen.get(row["verdict"], row["taken_at"]))
    verdicts = sorted((at, verdict) for verdict, at in first_seen.items())
    last_seen = max(row["taken_at"] for row in rows)
    closed_at, is_lost = cycles.end_of(f"{topic}-{partition}", last_seen)
    exact = [row for row in rows if row["start_source"] in EXACT]
    start_rank = max(SOURCES.index(row["start_source"]) for row in exact or rows)
    greatest = {name: max(row[name] for row in rows) for name in GREATEST}
    known = [row["duration_ms"] for row in rows if row["start_source"] != "first_seen" or row["duration_ms"] > 0]
    greatest["duration_ms"] = max(known, default=None)
    lags = [row["last_stable_offset_lag"] for row in rows if row["last_stable_offset_lag"] is not None]
    one = {
        "topic": topic,
        "partition": partition,
        "start_offset": start_offset,
        "first_seen": min(row["taken_at"] for row in rows),
        "last_seen": last_seen,
        "started_at": min(row["started_at"] for row in rows),
        "exact_started_at": min((row["started_at"] for row in exact), default=None),
        "start_rank": start_rank,
        **greatest,
        "last_stable_offset_lag": max(lags, default=None),
        "verdicts": [{"first_seen": at, "verdict": verdict} for at, verdict in verdicts],
        "groups": sorted({group for row in rows for group in row["groups"]}),
        "closed_at": closed_at,
        "is_lost": is_lost,
        "topic_id": topic_id,
    }
    return one, {"producer_id": producer_id, "producer_epoch": max(row["producer_epoch"] for row in rows)}


def _transaction(cluster_id: str, members: Sequence[tuple[Row, Row]], names: Mapping[int, str]) -> Row:
    partitions = sorted((one for one, _ in members), key=order)
    shared = members[0][1]
    verdicts = sorted((seen["first_seen"], seen["verdict"]) for one in partitions for seen in one["verdicts"])
    is_closed = all(one["closed_at"] is not None for one in partitions)
    is_open = any(one["closed_at"] is None and not one["is_lost"] for one in partitions)
    exact = partitions[0]["exact_started_at"]
    return {
        "cluster_id": cluster_id,
        **shared,
        "transactional_id": names.get(shared["producer_id"]),
        "started_at": min(one["started_at"] for one in partitions) if exact is None else exact,
        "start_source": SOURCES[max(one["start_rank"] for one in partitions)],
        "first_seen": min(one["first_seen"] for one in partitions),
        "last_seen": max(one["last_seen"] for one in partitions),
        **{name: max((one[name] for one in partitions if one[name] is not None), default=None) for name in GREATEST},
        "verdicts": list(dict.fromkeys(verdict for _, verdict in verdicts)),
        "end": "still_open" if is_open else "closed" if is_closed else "lost_from_view",
        "closed_at": max(one["closed_at"] for one in partitions) if is_closed else None,
        "partitions": partitions,
    }


def order(one: Row) -> tuple[Any, ...]:
    """That of its columns, null first; those of a topic with and without an id differ late in them."""
    seen = [(each["first_seen"], each["verdict"]) for each in one["verdicts"]]
    plain = [(value is not None, value) for name, value in one.items() if name != "verdicts"]
    before = list(one).index("verdicts")
    return *plain[:before], seen, *plain[before:]


def incidents(tables: Mapping[str, Sequence[Row]], stood: Iterable[Row]) -> list[Row]:
    """Returns the incidents of all clusters, without the column `incident`; `stood` are the rows of `stalls`."""
    causes: defaultdict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in stood:
        if row["cause"] is not None:
            causes[tuple(row[name] for name in PLACE)].add(row["cause"])
    found = []
    for cluster_id, rows in tables.items():
        suspects = sorted(
            ((at, row) for row in rows if (at := _first(row, is_suspect)) is not None), key=lambda pair: pair[0]
        )
        joined: list[list[Row]] = []
        before = None
        for at, row in suspects:
            if before is None or at - before > JOINED_MS:
                joined.append([])
            joined[-1].append(row)
            before = at
        found += [{**_incident(cluster_id, members), "causes": _causes(members, causes)} for members in joined]
    return sorted(found, key=lambda row: (row["cluster_id"], row["started_at"]))


PLACE: Final = ("cluster_id", "topic", "partition", "producer_id", "start_offset")


def _causes(members: Sequence[Row], causes: Mapping[tuple[Any, ...], set[str]]) -> list[str]:
    places = (tuple({**row, **one}[name] for name in PLACE) for row in members for one in row["partitions"])
    return sorted({cause for place in places for cause in causes.get(place, ())})


def is_suspect(verdict: str) -> bool:
    """A verdict of a newer exporter is a suspect's."""
    return verdict not in ORDINARY


def _first(row: Row, is_wanted: Callable[[str], bool]) -> int | None:
    return min(
        (seen["first_seen"] for one in row["partitions"] for seen in one["verdicts"] if is_wanted(seen["verdict"])),
        default=None,
    )


def _incident(cluster_id: str, members: Sequence[Row]) -> Row:
    suspect_at = [at for row in members if (at := _first(row, is_suspect)) is not None]
    hanging_at = [at for row in members if (at := _first(row, HANGING.__contains__)) is not None]
    hit = [
        one
        for row in members
        for one in row["partitions"]
        if any(is_suspect(seen["verdict"]) for seen in one["verdicts"])
    ]
    lags: dict[str, int] = {}
    for one in hit:
        name = f"{one['topic']}-{one['partition']}"
        if one["last_stable_offset_lag"] is not None:
            lags[name] = max(one["last_stable_offset_lag"], lags.get(name, 0))
    is_over = all(row["end"] == "closed" for row in members)
    seen = [verdict for row in members for verdict in row["verdicts"] if is_suspect(verdict)]
    return {
        "cluster_id": cluster_id,
        "blocked_from": min(row["started_at"] for row in members),
        "is_start_known": all(row["start_source"] != "first_seen" for row in members),
        "started_at": min(suspect_at),
        "ended_at": max(row["closed_at"] for row in members) if is_over else None,
        "duration_ms": max(row["closed_at"] for row in members) - min(row["started_at"] for row in members)
        if is_over
        else None,
        "is_over": is_over,
        "worst_verdict": min(seen, key=lambda verdict: (*SUSPECTS, verdict).index(verdict)),
        "transactions": len(members),
        "transactional_ids": sorted(
            {row["transactional_id"] for row in members if row["transactional_id"] is not None}
        ),
        "partitions": sorted({f"{one['topic']}-{one['partition']}" for one in hit}),
        "groups": sorted({group for one in hit for group in one["groups"]}),
        "records_held_back": sum(lags.values()) if lags else None,
        "noticed_delay_ms": min(suspect_at) - min(row["started_at"] for row in members)
        if all(row["start_source"] != "first_seen" for row in members)
        else None,
        "detection_delay_ms": min(at - row["first_seen"] for row, at in zip(members, suspect_at, strict=True)),
        "proof_delay_ms": min(hanging_at) - min(suspect_at) if hanging_at else None,
        "operators": [],
        "operated_at": None,
    }


def coverage(history: History) -> list[Row]:
    """Returns a row for each cluster, hour and writer, in the columns of the table."""
    found = []
    for cluster_id, rows in history.cycles.items():
        hours: dict[tuple[int, str], list[Row]] = defaultdict(list)
        for row in rows:
            hours[row["taken_at"] // HOUR_MS * HOUR_MS, row["writer"]].append(row)
        unwatched = {hour: _unwatched_ms(hour, rows) for hour, _ in hours}
        for (hour, writer), cycles in hours.items():
            found.append(
                {
                    "cluster_id": cluster_id,
                    "hour": hour,
                    "writer": writer,
                    "cycles": len({row["taken_at"] for row in cycles}),
                    "interval_ms": max(row["interval_ms"] for row in cycles),
                    "cycles_incomplete": len({row["taken_at"] for row in cycles if not row["is_complete"]}),
                    "partitions_read_min": min(row["partitions_read"] for row in cycles),
                    "partitions_unread_max": max(row["partitions_unread"] for row in cycles),
                    "unwatched_ms": unwatched[hour],
                }
            )
    return sorted(found, key=lambda row: (row["cluster_id"], row["hour"], row["writer"]))


def _unwatched_ms(hour: int, cycles: Sequence[Row]) -> int:
    """The time of the hour, up to the newest cycle, in no interval after a cycle; the begin of the hour counts as one."""
    own = [row for row in cycles if hour <= row["taken_at"] < hour + HOUR_MS]
    first = min(row["taken_at"] for row in own)
    spans = [(row["taken_at"], row["interval_ms"]) for row in own]
    spans.append((hour, max(row["interval_ms"] for row in own if row["taken_at"] == first)))
    last = min(hour + HOUR_MS, max(row["taken_at"] for row in cycles))
    edges = sorted({hour, last, *(min(at + shift, last) for at, ms in spans for shift in (0, ms))})
    return sum(
        end - begin
        for begin, end in itertools.pairwise(edges)
        if not any(at <= begin < at + interval_ms for at, interval_ms in spans)
    )


WATCHED_MS: Final = 900_000


def stalls(history: History) -> list[Row]:
    """Returns a row for each cluster, hour, partition, application, verdict and group, in the columns of the table."""
    found: list[Row] = []
    for cluster_id, rows in history.observations.items():
        watched: dict[int, int] = defaultdict(lambda: WATCHED_MS)
        for cycle in history.cycles.get(cluster_id, ()):
            watched[cycle["taken_at"]] = max(watched[cycle["taken_at"]], 2 * cycle["interval_ms"])
        partitions: dict[tuple[Any, ...], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            partitions[row["topic"], row["partition"], row.get("topic_id")][row["taken_at"]].append(row)
        spans: dict[tuple[Any, ...], list[tuple[int, Row]]] = defaultdict(list)
        for (topic, partition, _), by_instant in partitions.items():
            instants = sorted(by_instant)
            for at, after in pairwise(instants):
                one, other = _holder(by_instant[at]), _holder(by_instant[after])
                holds = all(one[name] == other[name] for name in ("producer_id", "start_offset"))
                if not holds or after - at > watched[at] or not one["last_stable_offset_lag"]:
                    continue
                for hour in range(at // HOUR_MS * HOUR_MS, after, HOUR_MS):
                    stalled_ms = min(after, hour + HOUR_MS) - max(at, hour)
                    ends_here = other if after <= hour + HOUR_MS else one
                    lag = max(one["last_stable_offset_lag"], ends_here["last_stable_offset_lag"] or 0)
                    for group in (None, *one["groups"]):
                        span = {**one, "last_stable_offset_lag": lag}
                        spans[hour, topic, partition, one["verdict"], group].append((stalled_ms, span))
        for key, held in spans.items():
            found += _stalled(cluster_id, key, held)
    return sorted(found, key=order_of_stall)


def _holder(rows: Sequence[Row]) -> Row:
    """The transaction that holds the last stable offset, by the first of its rows."""

    def place(row: Row) -> tuple[Any, ...]:
        lag, name = row["last_stable_offset_lag"], row["transactional_id"]
        first = (row["start_offset"], row["producer_id"], row["verdict"])
        cause = row.get("cause")
        return *first, lag is None, -(lag or 0), row["groups"], (name is not None, name), (cause is not None, cause)

    return min(rows, key=place)


def _stalled(cluster_id: str, key: tuple[Any, ...], held: Sequence[tuple[int, Row]]) -> Iterable[Row]:
    transactions_: dict[tuple[int, int], list[tuple[int, Row]]] = defaultdict(list)
    for stalled_ms, row in held:
        transactions_[row["producer_id"], row["start_offset"]].append((stalled_ms, row))
    by_name: dict[str | None, list[Row]] = defaultdict(list)
    for (producer_id, start_offset), spans in transactions_.items():
        names = [row["transactional_id"] for _, row in spans if row["transactional_id"] is not None]
        by_name[max(names, default=None)].append(
            {
                "stalled_ms": sum(stalled_ms for stalled_ms, _ in spans),
                "records_max": max(row["last_stable_offset_lag"] for _, row in spans),
                "start_offset": start_offset,
                "producer_id": producer_id,
                "cause": max((row["cause"] for _, row in spans if row.get("cause") is not None), default=None),
            }
        )
    for name, members in by_name.items():
        longest = max(members, key=lambda one: (one["stalled_ms"], one["start_offset"], one["producer_id"]))
        yield {
            "cluster_id": cluster_id,
            **dict(zip(("hour", "topic", "partition", "verdict", "waiting_group"), key, strict=True)),
            "transactional_id": name,
            "stalled_ms": sum(one["stalled_ms"] for one in members),
            "records_max": max(one["records_max"] for one in members),
            "transactions": len(members),
            "producer_id": longest["producer_id"],
            "start_offset": longest["start_offset"],
            "cause": longest["cause"],
        }


def order_of_stall(row: Row) -> tuple[Any, ...]:
    names = ("cluster_id", "hour", "topic", "partition", "verdict", "waiting_group", "transactional_id")
    return tuple((row[name] is not None, row[name]) for name in names)
