"""The manifest: one small file that names the folders of the tables, and is replaced as a whole after they are written.

A run writes new folders under new names, and then this file. A kill at any instant leaves either the old file or the new
one, so that each history file is taken exactly once. Readers use only the folders in it.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from exporter.files import atomic_write
from exporter.history.schema import TEMPORARY, VERSION, folder_of_cluster

FORMAT: Final = "kafka-transaction-exporter tables"
FORMAT_VERSION: Final = 1
SUPERSEDED_MS: Final = 3_600_000
"""Unreferenced folders are kept this long for readers of the previous manifest."""


class TablesError(Exception):
    """The tables cannot be used; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A folder of closed transactions of one cluster that closed in one hour, or in one day after compaction."""

    folder: str
    cluster_id: str
    is_suspect: bool
    """True: holds only transactions that were suspects once; false: only others."""
    day: str
    first_seen_ms: int
    closed_to_ms: int
    rows: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A folder of transactions, `source`, joined with the transaction log up to an instant."""

    source: str
    folder: str
    log_to_ms: int


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file of the history that cannot be read; it is tried again when it has changed."""

    key: str
    size_bytes: int
    changed_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Folders are relative to that of the manifest."""

    generation: int = 0
    consumed: frozenset[str] = frozenset()
    """Files of the history, by `HistoryFile.key`."""
    buckets: tuple[Bucket, ...] = ()
    open: str | None = None
    """Transactions that are not closed."""
    incidents: str | None = None
    identities: str | None = None
    """The folder of producers and partitions; null in tables of an older version."""
    baselines_made_at_ms: int | None = None
    outcomes: tuple[Joined, ...] = ()
    damaged: tuple[DamagedFile, ...] = ()
    superseded: tuple[tuple[str, int], ...] = field(default=())
    """(folder, since when in ms)."""

    @property
    def folders(self) -> frozenset[str]:
        """All folders in the manifest."""
        named = {bucket.folder for bucket in self.buckets} | {outcome.folder for outcome in self.outcomes}
        named |= {folder for folder, _ in self.superseded}
        single = (self.open, self.incidents, self.identities)
        return frozenset(named | {folder for folder in single if folder is not None})

    def new_run(self) -> str:
        """A unique name: when this process is killed, Spark's process continues to write for a moment."""
        return f"run-{self.generation + 1:08d}-{uuid.uuid4().hex[:8]}"

    def succeeded_by(self, now_ms: int, **changes: object) -> Manifest:
        """The next manifest; it keeps folders that it no longer uses for a while."""
        following = replace(self, generation=self.generation + 1, superseded=(), **changes)  # type: ignore[arg-type]
        gone = self.folders - following.folders - {folder for folder, _ in self.superseded}
        kept = ((folder, since_ms) for folder, since_ms in self.superseded if now_ms - since_ms < SUPERSEDED_MS)
        return replace(following, superseded=(*kept, *((folder, now_ms) for folder in sorted(gone))))


class Tables:
    def __init__(self, directory: Path) -> None:
        self.root = directory / VERSION
        self.baselines = self.root / "baselines.json"
        self.report = self.root / "report.html"
        self._manifest = self.root / "manifest.json"

    def load(self) -> Manifest:
        """The manifest; empty if there is none. Raises TablesError for another format."""
        try:
            document = json.loads(self._manifest.read_text(encoding="utf-8"))
            if (document.pop("format"), document.pop("version")) != (FORMAT, FORMAT_VERSION):
                raise TablesError(f"{self._manifest}: is of another version of this program")
            return Manifest(
                **{
                    **document,
                    "consumed": frozenset(document["consumed"]),
                    "buckets": tuple(Bucket(**bucket) for bucket in document["buckets"]),
                    "outcomes": tuple(Joined(**outcome) for outcome in document.get("outcomes", ())),
                    "damaged": tuple(DamagedFile(**file) for file in document.get("damaged", ())),
                    "superseded": tuple((folder, since_ms) for folder, since_ms in document["superseded"]),
                }
            )
        except FileNotFoundError:
            return Manifest()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TablesError(f"{self._manifest}: is not a manifest: {error}") from error

    def commit(self, manifest: Manifest) -> None:
        """Make `manifest` the current one."""
        document = {**asdict(manifest), "consumed": sorted(manifest.consumed)}
        write_whole(self._manifest, json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **document}, indent=1))

    def log_records(self, cluster_id: str) -> Path:
        """The folder with records of that cluster's transaction log."""
        return self.root / "transaction_log" / folder_of_cluster(cluster_id)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One pipeline at a time; removes folders of a killed run. Raises TablesError while another pipeline works."""
        with _locked(self.root):
            self.sweep(self.load())
            yield

    def log_locked(self) -> AbstractContextManager[None]:
        """One reader of the log at a time, together with the pipeline. Raises TablesError while another reader works."""
        return _locked(self.root / "transaction_log")

    def sweep(self, manifest: Manifest) -> None:
        """Remove unreferenced folders."""
        for table in ("transactions", "incidents", "outcomes", "identities"):
            for run in (self.root / table).glob("run-*"):
                self._remove_but(run, manifest.folders)

    def _remove_but(self, folder: Path, named: frozenset[str]) -> None:
        here = str(folder.relative_to(self.root))
        if here in named:
            return
        if any(name.startswith(here + "/") for name in named):
            for inner in folder.iterdir():
                if inner.is_dir():
                    self._remove_but(inner, named)
        else:
            shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TablesError(f"{folder}: another pipeline is at work on these tables") from error
        yield


def write_whole(path: Path, text: str) -> None:
    """Replace the file atomically; it is on disk on return."""
    with atomic_write(path, beside=f"{TEMPORARY}{path.name}", mode=0o666) as file:
        file.write(text.encode())
