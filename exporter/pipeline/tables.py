"""The tables of the pipeline, and its state: which files of the history they hold.

A run writes a new state, and then commits its rows to the table of transactions with the name of this state in the note of
the commit (`delta`): a kill at any instant leaves either the old rows and state or the new ones, and RESTORE takes both
back. So each file of the history is taken exactly once.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from exporter import __version__
from exporter.history.schema import TEMPORARY, VERSION, folder_of_cluster
from exporter.pipeline import column_comments, schemas
from exporter.pipeline.buckets import BUCKET
from exporter.pipeline.column_comments import described
from exporter.pipeline.delta import Table, TableError, TableVersion
from exporter.storage import places
from exporter.storage.faults import StoreError
from exporter.storage.places import Place, remove_folder

Parsed = TypeVar("Parsed")

STATE: Final = "state"
"""Key in the note of a commit: the name of the state whose files the table has."""
KEPT_S: Final = 86_400
"""An older state stays that long. After a RESTORE of an older version the whole history is taken again."""
IDENTITIES_KEPT_S: Final = 7_200
"""Older producers and partitions stay that long, for a run that began before."""
_MALFORMED: Final = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file of the history that cannot be read; it is tried again when it has changed."""

    key: str
    size_bytes: int
    changed_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class TablesState:
    """State of the tables."""

    taken: frozenset[str] = frozenset()
    """Files of the history, by `HistoryFile.key`."""
    newest_ms: Mapping[str, int] = field(default_factory=dict)
    """Newest cycle by cluster."""
    identities: str | None = None
    """The folder of producers and partitions."""
    identities_from_ms: int = 0
    """Newest cycle when these were made from the rows of the table; zero if never."""


@dataclass(frozen=True, slots=True)
class CountedFiles:
    """Files of the history whose hours are in `coverage` and `stalls`, with the name of their state."""

    name: str | None
    taken: frozenset[str]
    are_joined_counted: bool
    """True if what compaction has joined since is counted too: it joins only what is."""


@dataclass(frozen=True, slots=True)
class Current:
    """The transactions as a run finds them, and their state."""

    snapshot: TableVersion
    state: TablesState


class Tables:
    def __init__(self, directory: Place) -> None:
        self.root = directory / VERSION
        self.baselines = self.root / "baselines.json"
        self.report = self.root / "report.html"
        self.weeks = self.root / "report.csv"
        self.states = self.root / "state"
        self.transactions = Table(
            self.root / "transactions",
            described(schemas.TRANSACTIONS_TABLE, column_comments.TRANSACTIONS),
            "One row for each transaction",
            ("was_suspect", *BUCKET),
        )
        incidents = described(schemas.INCIDENTS, column_comments.INCIDENTS)
        self.incidents = Table(self.root / "incidents", incidents, "Suspects that began together")
        self.transaction_log = Table(
            self.root / "transaction_log",
            described(schemas.RECORDS, column_comments.TRANSACTION_LOG),
            "Records of __transaction_state",
            ("cluster_id",),
        )
        self.coverage = Table(
            self.root / "coverage",
            described(schemas.COVERAGE, column_comments.COVERAGE),
            "What each exporter has watched in an hour",
            ("date",),
        )
        self.stalls = Table(
            self.root / "stalls",
            described(schemas.STALLS, column_comments.STALLS),
            "For how long a last stable offset stood still in an hour",
            ("date",),
        )
        self.operator_steps = Table(
            self.root / "operator_steps",
            described(schemas.OPERATOR_STEPS, column_comments.OPERATOR_STEPS),
            "Steps of operators' commands, from their audit logs",
        )
        self.runs = Table(self.root / "runs", described(schemas.RUNS, column_comments.RUNS), "Runs of the pipeline")
        # Columns of both are those of `exporter.audit`, which makes them: here they are read, and have an end.
        self.audit_transactions = Table(self.root / "audit_transactions", t.StructType(), "")
        self.audit_coverage = Table(self.root / "audit_coverage", t.StructType(), "")
        self._damaged = self.root / "left_out.json"

    @property
    def every(self) -> tuple[Table, ...]:
        return (
            self.transactions,
            self.incidents,
            self.coverage,
            self.stalls,
            self.transaction_log,
            self.operator_steps,
            self.runs,
        )

    def current(self) -> Current:
        """Raises TableError if the tables cannot be used."""
        snapshot = self.transactions.snapshot()
        path = self._path_of_state(snapshot)
        return Current(snapshot, TablesState() if path is None else _state(path))

    def begin(self, spark: SparkSession, current: Current) -> Current:
        """Makes the table of transactions ready for a commit. Raises ConflictError if another run was first."""
        return replace(current, snapshot=self.transactions.begin(spark, current.snapshot))

    def _path_of_state(self, snapshot: TableVersion) -> Place | None:
        """None before the first run, and if the state is missing: then the history is taken again, which changes no row."""
        if snapshot.note is not None:
            return self._path_in(snapshot.note)
        # Delta has removed the commit with the note from the log.
        found: list[Place] = list(self.states.glob(f"{snapshot.run}-*.json"))
        return found[0] if snapshot.run and len(found) == 1 else None

    def _path_in(self, note: Mapping[str, Any]) -> Place | None:
        """The state that a note names; None without a name, and if it is missing."""
        name = note.get(STATE)
        path = None if name is None else self.states / str(name)
        return path if path is not None and path.exists() else None

    def commit(
        self,
        current: Current,
        state: TablesState,
        rows: DataFrame,
        *,
        replaced: str | None = None,
        read: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Commits the state, and rows in place of those for which `replaced` holds. Raises ConflictError.

        `read` says how many files and rows of the history the run has read.
        """
        document = {**asdict(state), "taken": sorted(state.taken)}
        name = f"{current.snapshot.run + 1}-{secrets.token_hex(8)}.json"
        self.states.mkdir(parents=True, exist_ok=True)
        write_whole(self.states / name, json.dumps(document))
        note = {"version": __version__, STATE: name, **read}
        self.transactions.commit(rows, current.snapshot, note=note, replaced=replaced)

    def name_of_state(self, snapshot: TableVersion) -> str | None:
        path = self._path_of_state(snapshot)
        return None if path is None else path.name

    def counted(self) -> CountedFiles:
        """Returns what both tables have counted by hour: nothing before the first run, and if a state is missing.

        RESTORE of one of them takes its state back.
        """
        paths = [self._path_in(table.snapshot().note or {}) for table in (self.coverage, self.stalls)]
        found = [path for path in paths if path is not None]
        if len(found) < len(paths):
            return CountedFiles(None, frozenset(), are_joined_counted=False)
        oldest = min(found, key=lambda path: int(path.name.partition("-")[0]))
        return CountedFiles(
            oldest.name, _state(oldest).taken, are_joined_counted=len({path.name for path in found}) == 1
        )

    def new_identities(self) -> Place:
        """A new place for producers and partitions."""
        return self.states / f"identities-{secrets.token_hex(8)}"

    def checkpoint_of(self, cluster_id: str) -> Place:
        """Place where Spark keeps how far it has read the transaction log of that cluster."""
        return self.states / f"checkpoint-{folder_of_cluster(cluster_id)}"

    def is_same_log(self, cluster_id: str, topic_id: str) -> bool:
        """False if the transaction log of that cluster was read by another topic id; otherwise this one is remembered."""
        path = self.states / f"topic-{folder_of_cluster(cluster_id)}.id"
        before = read_whole(path, lambda text: str(json.loads(text)["topic_id"]))
        if before is None and topic_id:
            self.states.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"topic_id": topic_id}))
        return before is None or not topic_id or before == topic_id

    def damaged(self) -> tuple[DamagedFile, ...]:
        """Damaged files that runs have found. Nothing is lost with this file: they are found again."""
        found = read_whole(self._damaged, lambda text: tuple(DamagedFile(**file) for file in json.loads(text)))
        return found or ()

    def remember_damaged(self, files: Iterable[DamagedFile]) -> None:
        """Saves damaged files for the next runs, and for the report."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_whole(self._damaged, json.dumps([asdict(file) for file in files], indent=1))

    def clean(self, spark: SparkSession, *, kept_s: int = KEPT_S) -> None:
        """Removes what no version within the tables' own retention has, older states, and what killed runs have left."""
        current = self.current()
        for table in (*self.every, self.audit_transactions, self.audit_coverage):
            if table.exists:
                table.vacuum(spark)
        path, counted = self._path_of_state(current.snapshot), self.counted().name
        for state in self.states.glob("*.json"):
            if (
                path is not None
                and state.name not in {path.name, counted}
                and state.stat().st_mtime < time.time() - kept_s
            ):
                state.unlink()
        self.clean_identities(kept_s=min(kept_s, IDENTITIES_KEPT_S))

    def clean_identities(self, *, kept_s: int = IDENTITIES_KEPT_S) -> None:
        """Removes older producers and partitions: a run that needs them, after a RESTORE, makes them again."""
        current = self.current().state.identities
        written_s = {each.parent.parent: each.stat().st_mtime for each in self.states.glob("identities-*/producers/*")}
        for folder, at_s in written_s.items():
            if folder.name != current and at_s < time.time() - kept_s:
                remove_folder(folder)


def _state(path: Place) -> TablesState:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return TablesState(**{**document, "taken": frozenset(document["taken"])})
    except StoreError as error:
        raise TableError(str(error)) from error
    except (OSError, *_MALFORMED) as error:
        why = "remove it, and the next run takes the history again"
        raise TableError(f"{path}: is not the state of the tables ({error}): {why}") from error


def by_cluster(choose: Callable[[int, int], int], instants: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Chooses an instant of each cluster by `choose` (`min` or `max`)."""
    chosen: dict[str, int] = {}
    for cluster_id, instant_ms in instants:
        chosen[cluster_id] = choose(instant_ms, chosen.get(cluster_id, instant_ms))
    return chosen


def read_whole(path: Place, parse: Callable[[str], Parsed]) -> Parsed | None:
    """Returns what `parse` makes of the file; None if it is missing or malformed. Raises StoreError."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except StoreError:
        raise
    except (OSError, *_MALFORMED):
        return None


def write_whole(path: Place, text: str) -> None:
    """Replaces the file atomically; it is stored on return."""
    places.write_whole(path, text, beside=f"{TEMPORARY}{path.name}")
