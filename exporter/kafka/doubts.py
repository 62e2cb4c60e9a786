"""Settling doubts: what the coordinators contradict is read again, and proved where it is still open.

A transaction that ends meanwhile drops out at one of the re-reads: only what stays open at the same start offset, before
and after its coordinator was asked, was open *while* it was asked.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from exporter.kafka.broker_configs import strangers
from exporter.kafka.coordinators import by_producer_id, prove
from exporter.kafka.errors import ClusterUnavailableError
from exporter.kafka.inquiry import Inquiry
from exporter.kafka.leaders import Entries, Scan, read_rows
from exporter.kafka.reading import Reading
from exporter.kafka.topology import Topology
from exporter.snapshot import NO_LEADER, Answer, Int32Column, Ownership, SecondRead, ownership

_EXPLAINED = frozenset({Ownership.OWNED, Ownership.COMPLETING, Ownership.LISTED_ACTIVE})


async def settle_doubts(inquiry: Inquiry, reading: Reading) -> npt.NDArray[np.bool_]:
    """Read again what the coordinators contradict, and ask for a proof where it is still open.

    (N,) the entries that are in doubt afterwards, of those that are left.
    """
    doubtful = _doubtful(reading)
    if not np.any(doubtful):
        return doubtful
    # Most doubts are transactions that ended between the two questions: one more look at their partitions, and no probes.
    doubtful = await _read_again(inquiry, reading, doubtful)
    if not np.any(doubtful):
        return doubtful
    entries = reading.entries
    in_doubt = np.flatnonzero(doubtful)
    reading.proof = await prove(
        inquiry,
        reading.topology,
        producer_ids={int(producer_id) for producer_id in entries.producer_id[in_doubt]},
        topics={reading.partition(int(i))[0] for i in in_doubt},
    )
    return await _read_again(inquiry, reading, doubtful)


def _doubtful(reading: Reading) -> npt.NDArray[np.bool_]:
    """(N,) entries that no coordinator's active transaction explains."""
    active = by_producer_id(reading.transactions)
    entries = reading.entries
    return np.array(
        [
            ownership(active.get(int(entries.producer_id[i])), reading.partition(i), int(entries.producer_epoch[i]))
            not in _EXPLAINED
            for i in range(len(entries))
        ],
        dtype=np.bool_,
    )


async def _current_leaders(inquiry: Inquiry, topology: Topology, rows: npt.NDArray[np.int64]) -> Int32Column:
    """(P,) leaders of `rows` as fresh metadata tells them; NO_LEADER elsewhere, and when nobody tells.

    A former leader answers from its own log, without an error: it must not be what makes a transaction look ended.
    """
    leaders = np.full(len(topology), NO_LEADER, dtype=np.int32)
    topics = tuple(topology.topics[topic] for topic in np.unique(topology.topic[rows]))
    try:
        fresh = await inquiry.topology(topics)
    except ClusterUnavailableError:
        return leaders
    for row in rows:
        leaders[row] = fresh.leader_of(topology.topics[topology.topic[row]], int(topology.partition[row]))[0]
    return leaders


async def _read_again(inquiry: Inquiry, reading: Reading, doubtful: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Drop doubtful entries that have ended, note what became of the others; `doubtful` for the entries that are left."""
    entries = reading.entries
    again = Scan.unasked(reading.topology)
    rows = np.unique(entries.row[doubtful])
    leader = await _current_leaders(inquiry, reading.topology, rows)
    await read_rows(inquiry, again, rows[leader[rows] != NO_LEADER], leader)
    found = again.entries()
    epochs = {
        (row, producer_id, start): epoch
        for row, producer_id, start, epoch in zip(
            found.row.tolist(),
            found.producer_id.tolist(),
            found.start_offset.tolist(),
            found.producer_epoch.tolist(),
            strict=True,
        )
    }
    keep = np.ones(len(entries), dtype=np.bool_)
    led_by_strangers = strangers(reading.max_timeout)
    for i in np.flatnonzero(doubtful):
        row = int(entries.row[i])
        epoch = epochs.get((row, int(entries.producer_id[i]), int(entries.start_offset[i])))
        if again.answer[row] != Answer.READ or int(leader[row]) in led_by_strangers:
            reading.second_read[i] = SecondRead.UNREAD
        elif epoch is None:
            keep[i] = False
        elif reading.second_read[i] != SecondRead.CHANGED:
            same = epoch == entries.producer_epoch[i]
            reading.second_read[i] = SecondRead.UNCHANGED if same else SecondRead.CHANGED
    reading.entries = Entries(**{name: getattr(entries, name)[keep] for name in Entries.__dataclass_fields__})
    reading.second_read = reading.second_read[keep]
    return doubtful[keep]
