"""Takes over the tables of version 0.1.0, which had a manifest instead of Delta's log, without Spark.

Files of closed transactions and of the transaction log become part of the new tables under a second name (a hard link), so
that nothing is copied; those of open transactions are few, and are split by suspects. A kill at any instant leaves the
manifest, and the next run begins again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.history.schema import cluster_of_folder
from exporter.incidents.incident import SUSPECTS
from exporter.pipeline.delta import TableError
from exporter.pipeline.tables import State, Tables, by_cluster
from exporter.storage.places import Place

FORMAT: Final = ("kafka-transaction-exporter tables", 1)
_SUSPECTS: Final = frozenset(SUSPECTS)


def take_over(tables: Tables) -> int | None:
    """Returns the number of transactions; None if there is nothing to take over. Raises TableError."""
    path = tables.root / "manifest.json"
    if not isinstance(path, Path) or not path.exists():  # version 0.1.0 had no object stores
        return None
    with _locked(path.parent):
        manifest = _read(path)
        _link_log(tables)
        current = tables.current()
        if current.snapshot.run == 0:
            run = current.snapshot.new_run()
            added = list(_link_transactions(tables, manifest, run))
            tables.commit(current, _state(tables, manifest, run), run=run, added=added)
        for folder in ("outcomes", "identities"):
            shutil.rmtree(path.parent / folder, ignore_errors=True)
        path.unlink(missing_ok=True)
    return sum(file.rows for file in tables.current().files)


def _local(place: Place) -> Path:
    assert isinstance(place, Path)
    return place


def _read(path: Path) -> Mapping[str, Any]:
    try:
        manifest: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if (manifest["format"], manifest["version"]) == FORMAT:
            return manifest
        why = "is of another version of this program"
    except (ValueError, KeyError, TypeError) as error:
        why = f"is not a manifest: {error}"
    raise TableError(f"{path}: {why}")


def _link_transactions(tables: Tables, manifest: Mapping[str, Any], run: int) -> Iterator[Path]:
    root, folder = _local(tables.root), _local(tables.folder_of(tables.transactions, run))
    for number, bucket in enumerate(manifest["buckets"]):
        hour = Path(bucket["folder"]).name.removeprefix("hour=")
        name = f"closed_in={bucket['day']}" + ("" if hour == "all" else f"T{hour}")
        for file in sorted((root / bucket["folder"]).glob("*.parquet")):
            place = folder / f"was_suspect={str(bucket['is_suspect']).lower()}" / name / f"{number}-{file.name}"
            yield _linked(file, place)
    if manifest["open"] is not None:
        for number, file in enumerate(sorted((root / manifest["open"]).glob("*.parquet"))):
            yield from _split(pq.ParquetFile(file).read(), folder, number)


def _split(rows: pa.Table, folder: Path, number: int) -> Iterator[Path]:
    """Open transactions: those that were suspects, and the others."""
    were_suspects = [not _SUSPECTS.isdisjoint(verdicts) for verdicts in rows["verdicts"].to_pylist()]
    for was_suspect in (False, True):
        chosen = rows.filter(pa.array([each is was_suspect for each in were_suspects], pa.bool_()))
        place = folder / f"was_suspect={str(was_suspect).lower()}" / "closed_in=open" / f"{number}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(chosen, place, compression="zstd")
        yield place


def _state(tables: Tables, manifest: Mapping[str, Any], run: int) -> State:
    identities = manifest["identities"]
    if identities is not None:
        for file in sorted((_local(tables.root) / identities).glob("*/*.parquet")):
            _linked(file, _local(tables.identities_of(run)) / file.parent.name / file.name)
    return State(
        taken=frozenset(manifest["consumed"]),
        newest_ms=by_cluster(max, ((bucket["cluster_id"], bucket["closed_to_ms"]) for bucket in manifest["buckets"])),
        identities=None if identities is None else tables.identities_of(run).name,
    )


def _link_log(tables: Tables) -> None:
    """All files that are there: a record that is there twice counts once."""
    log = tables.transaction_log
    folders = sorted(_local(log.folder).glob("cluster_id=*"))
    snapshot = log.snapshot()
    if not folders or snapshot.run:
        return
    run = snapshot.new_run()
    linked = [
        _linked(file, _local(tables.folder_of(log, run)) / folder.name / file.name)
        for folder in folders
        for file in _readable(sorted(folder.glob("*.parquet")))
    ]
    log.commit(snapshot, run=run, added=linked)
    for folder in folders:
        with suppress(FileNotFoundError):
            checkpoint = folder.with_name(f"checkpoint-{folder.name}")
            checkpoint.rename(_local(tables.checkpoint_of(cluster_of_folder(folder.name))))


def _readable(files: Iterable[Path]) -> Iterator[Path]:
    """Without those of a run that was killed."""
    for file in files:
        with suppress(pa.ArrowException):
            pq.read_metadata(file)
            yield file


def _linked(file: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place)
    except OSError:  # no links here
        shutil.copy2(file, place)
    return place


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """As version 0.1.0 locks its tables, which may still run. Raises TableError."""
    with (root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TableError(f"{root}: another pipeline is at work on these tables") from error
        yield
