"""Shows whether an object store has conditional writes, without which two pipelines overwrite each other's commits."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Final

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.schema import PrimitiveType

from exporter.pipeline.connectors import delta_options, delta_uri
from exporter.pipeline.delta import APPLICATION, ConflictError, TableError, faults
from exporter.storage.places import Place, remove_folder

PROBE_WRITERS: Final = 4
PROBE_ROUNDS: Final = 5
_NOTHING: Final = Schema([Field("nothing", PrimitiveType("string"))])


def require_conditional_writes(folder: Place) -> None:
    """Raises TableError if a store lets two writers commit the same version, of which one would be lost.

    Some writers commit to a table of the probe's own at the same time, a few times: one alone may succeed each time, and
    the others must see that. A round that nobody wins shows nothing: the store did not respond to the winner.
    """
    if isinstance(folder, Path):
        return
    probe = folder / f"probe-{secrets.token_hex(8)}"
    others: list[TableError] = []
    won = 0
    try:
        for _ in range(2 * PROBE_ROUNDS):
            failures = [outcome for outcome in _race(probe) if outcome is not None]
            winners = PROBE_WRITERS - len(failures)
            if winners > 1:
                raise TableError(
                    f"{folder}: this store ignores conditional writes (If-None-Match), so that two pipelines would "
                    f"overwrite each other's commits; keep the tables on a disk, or in a store that has them"
                )
            others += [failure for failure in failures if not isinstance(failure, ConflictError)]
            if others and not winners:
                raise others[0]
            won += winners
            if won == PROBE_ROUNDS:
                break
        # Raised last: where objects are overwritten, one that is being replaced may be missing for a moment.
        if others:
            raise others[0]
        if won < PROBE_ROUNDS:
            raise TableError(f"{folder}: this store has lost responses, so that its conditional writes are not proved")
    finally:
        remove_folder(probe)


def _race(folder: Place) -> list[TableError | None]:
    """Lets some writers commit the same version; returns why each could not, None if it could."""
    with faults(folder, "is not a Delta table that can be read"):
        DeltaTable.create(delta_uri(folder), _NOTHING, mode="ignore", storage_options=delta_options(folder))
        tables = [DeltaTable(delta_uri(folder), storage_options=delta_options(folder)) for _ in range(PROBE_WRITERS)]
    begin = Barrier(PROBE_WRITERS)

    def outcome(table: DeltaTable) -> TableError | None:
        properties = CommitProperties(app_transactions=[Transaction(APPLICATION, table.version() + 1)])
        begin.wait()
        try:
            with faults(folder, "cannot be changed"):
                table.create_write_transaction([], "append", _NOTHING, commit_properties=properties)
        except TableError as error:
            return error
        return None

    with ThreadPoolExecutor(PROBE_WRITERS) as executor:
        return list(executor.map(outcome, tables))
