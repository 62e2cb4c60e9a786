"""Reads the truth from the brokers without the exporter: a consumer that begins where a group stands, and raw requests.

A group stands still if a reader of committed records gets nothing from its position on, and a reader of all records gets
something. No rule about offsets and markers is needed for that.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hangbench.kafka.groups import END_OF_PARTITION
from hangbench.parties.words import Cause, Place, Standstill
from hangbench.situations.ground import described, open_entries
from hangbench.waiting import until

PATIENCE_S: Final = 30.0
IN_TIME: Final = frozenset({Cause.OWNER_SILENT, Cause.LIVE, Cause.PREPARED_2PC})
COMMITTED: Final = IsolationLevel.READ_COMMITTED
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
FOR_EVER_MS: Final = 2**31 - 1
"""The time-out that a coordinator shows for a transaction of two-phase commit."""


class Probe:
    """Readers that commit nothing: a new one for each question, which is faster than to move one to another topic."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def position(self, group: str, place: Place) -> int | None:
        """Returns the committed offset of a group; None if it has none."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0})

        def committed() -> int | None:
            try:
                (found,) = consumer.committed([TopicPartition(*place)], timeout=PATIENCE_S)
            except KafkaException:  # its coordinator loads
                return None
            return int(found.offset)

        offset = until(committed, lambda offset: offset is not None)
        consumer.close()
        return None if offset is None or offset < 0 else offset

    def is_held(self, place: Place, position: int) -> bool:
        """True if records are behind `position`, and a reader of committed records gets none of them.

        A reader that is beyond the last stable offset reads all records.
        """
        if position > until(partial(self._last_stable_offset, place), lambda offset: offset >= 0):
            return False
        return not self._has_more("read_committed", place, position) and self._has_more(
            "read_uncommitted", place, position
        )

    def _last_stable_offset(self, place: Place) -> int:
        """Returns -1 while the broker starts: a client that was there before has its older leader epoch."""
        partition, admin = TopicPartition(*place), AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        try:
            stable = admin.list_offsets({partition: LATEST}, isolation_level=COMMITTED)
            return int(stable[partition].result(PATIENCE_S).offset)
        except KafkaException:
            return -1

    def _has_more(self, level: str, place: Place, position: int) -> bool:
        reader = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "probe",
                "isolation.level": level,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        reader.assign([TopicPartition(*place, position)])
        message = reader.poll(PATIENCE_S)
        reader.close()
        assert message is not None, f"nothing came from {place} within {PATIENCE_S:.0f} s"
        error = message.error()
        assert error is None or error.code() == END_OF_PARTITION, error
        return error is None

    def contradiction(self, standstill: Standstill, *, has_position: bool) -> str | None:
        """Says where the cluster differs from the written truth; None where it agrees."""
        where = f"{standstill.party} on {standstill.place[0]}-{standstill.place[1]}"
        if standstill.behind is None and standstill.cause is Cause.STUCK_AT_COORDINATOR:
            listed = described(self._bootstrap, standstill.party)
            is_stuck = (
                listed is not None and listed.state.startswith("Prepare") and standstill.place in listed.partitions
            )
            return None if is_stuck else f"{where} is not stuck: {listed}"
        if has_position:
            position = self.position(standstill.party, standstill.place)
            if position is None or not self.is_held(standstill.place, position):
                return f"{where} does not stand still at {position}"
        return self._of_holder(standstill)

    def _of_holder(self, standstill: Standstill) -> str | None:
        """Compares the oldest open transaction of the partition with the one that is said to hold it."""
        entries = open_entries(self._bootstrap, *standstill.place)
        if not entries:
            return f"nothing is open on {standstill.place}"
        oldest = min(entries, key=lambda producer_id: entries[producer_id].start_offset)
        listed = None if standstill.behind is None else described(self._bootstrap, standstill.behind)
        is_listed = listed is not None and standstill.place in listed.partitions and listed.producer_id == oldest
        if standstill.cause is Cause.HANGING:
            return f"a coordinator has the transaction: {listed}" if is_listed else None
        if listed is None or not is_listed:
            return f"{standstill.behind} does not hold {standstill.place}, but producer {oldest}: {listed}"
        if standstill.cause in IN_TIME:
            is_prepared = listed.timeout_ms >= FOR_EVER_MS
            agrees = listed.state == "Ongoing" and is_prepared == (standstill.cause is Cause.PREPARED_2PC)
        else:
            agrees = listed.state.startswith("Prepare")
        return None if agrees else f"{standstill.behind} is not {standstill.cause.value}: {listed}"
