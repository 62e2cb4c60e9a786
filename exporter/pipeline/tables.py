"""The tables of the pipeline, and its state: which files of the history they hold.

A run writes new files and a new state under the number of the run, and then commits that number with the files to the
table of transactions (`delta`): a kill at any instant leaves either the old state or the new one, so that each file of the
history is taken exactly once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from exporter.history.schema import TEMPORARY, VERSION, folder_of_cluster
from exporter.pipeline import schemas
from exporter.pipeline.delta import KEPT_HOURS, DataFile, Table, TableError, TableVersion
from exporter.storage import places
from exporter.storage.faults import StoreError
from exporter.storage.places import Place, remove_folder

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


@dataclass(frozen=True, slots=True)
class Current:
    """The transactions as a run finds them, and their state."""

    snapshot: TableVersion
    state: TablesState
    files: tuple[DataFile, ...]


class Tables:
    def __init__(self, directory: Place) -> None:
        self.root = directory / VERSION
        self.baselines = self.root / "baselines.json"
        self.report = self.root / "report.html"
        self.states = self.root / "state"
        self.transactions = Table(
            self.root / "transactions",
            schemas.TRANSACTIONS_TABLE,
            "One row for each transaction",
            ("was_suspect", "closed_in"),
        )
        self.incidents = Table(self.root / "incidents", schemas.INCIDENTS, "Suspects that began together")
        self.transaction_log = Table(
            self.root / "transaction_log",
            schemas.RECORDS,
            "Records of __transaction_state",
            ("cluster_id",),
        )
        self._damaged = self.root / "left_out.json"

    def current(self) -> Current:
        """Raises TableError if the tables cannot be used."""
        snapshot = self.transactions.snapshot()
        return Current(snapshot, self._state(snapshot.run), snapshot.files)

    def _state(self, run: int) -> TablesState:
        if run == 0:
            return TablesState()
        path = self._path_of_state(run)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return TablesState(frozenset(document["taken"]), document["newest_ms"], document["identities"])
        except StoreError as error:
            raise TableError(str(error)) from error
        except (OSError, *_MALFORMED) as error:
            raise TableError(f"{path}: is not the state of the tables: {error}") from error

    def _path_of_state(self, run: int) -> Place:
        return self.states / f"{run}.json"

    def commit(
        self,
        current: Current,
        state: TablesState,
        *,
        run: int,
        added: Iterable[Place] = (),
        removed: Iterable[DataFile] = (),
    ) -> None:
        """Makes `state` and the files the current ones. Raises TableError if another run was first."""
        document = {"taken": sorted(state.taken), "newest_ms": dict(state.newest_ms), "identities": state.identities}
        self.states.mkdir(parents=True, exist_ok=True)
        write_whole(self._path_of_state(run), json.dumps(document))
        self.transactions.commit(current.snapshot, run=run, added=added, removed=(file.path for file in removed))

    def folder_of(self, table: Table, run: int) -> Place:
        """Folder for a run's new files of a table: nothing else writes there, not even Spark's process of a killed run."""
        return table.folder / f"run-{run}"

    def identities_of(self, run: int) -> Place:
        """Place for the producers and partitions of a run."""
        return self.states / f"identities-{run}"

    def checkpoint_of(self, cluster_id: str) -> Place:
        """Place where Spark keeps how far it has read the transaction log of that cluster."""
        return self.states / f"checkpoint-{folder_of_cluster(cluster_id)}"

    def damaged(self) -> tuple[DamagedFile, ...]:
        """Damaged files that runs have found. Nothing is lost with this file: they are found again."""
        try:
            return tuple(DamagedFile(**file) for file in json.loads(self._damaged.read_text(encoding="utf-8")))
        except StoreError:
            raise
        except (OSError, *_MALFORMED):
            return ()

    def remember_damaged(self, files: Iterable[DamagedFile]) -> None:
        """Saves damaged files for the next runs, and for the report."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_whole(self._damaged, json.dumps([asdict(file) for file in files], indent=1))

    def clean(self, *, kept_hours: int = KEPT_HOURS) -> None:
        """Removes what no version of these hours has: files of tables, states, and what killed runs have left."""
        current = self.current()
        for table in (self.transactions, self.incidents, self.transaction_log):
            if table.exists:
                table.clean(kept_hours)
        kept = {self._path_of_state(current.snapshot.run).name, current.state.identities}
        before_s = time.time() - kept_hours * 3600
        for path in self.states.glob("*.json"):
            if path.name not in kept and path.stat().st_mtime < before_s:
                path.unlink()
        written_s = {path.parent.parent: path.stat().st_mtime for path in self.states.glob("identities-*/producers/*")}
        for folder, at_s in written_s.items():
            if folder.name not in kept and at_s < before_s:
                remove_folder(folder)


def by_cluster(choose: Callable[[int, int], int], instants: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Chooses an instant of each cluster by `choose` (`min` or `max`)."""
    chosen: dict[str, int] = {}
    for cluster_id, instant_ms in instants:
        chosen[cluster_id] = choose(instant_ms, chosen.get(cluster_id, instant_ms))
    return chosen


def write_whole(path: Place, text: str) -> None:
    """Replaces the file atomically; it is stored on return."""
    places.write_whole(path, text, beside=f"{TEMPORARY}{path.name}")
