"""Checks I3: the exporter's commands must not destroy records of a live or a committed transaction.

Between the last look and the marker's arrival something can always happen. Harm that was not to be seen at the last look
is counted and not blamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporter.evaluation.verdicts import TransactionRow
from tests.verification.model import coordinator
from tests.verification.model.checks import Violation
from tests.verification.model.truth import Fate, OpenKey, Standing
from tests.verification.model.world import World


class Watch:
    """Looks at each request that writes, before it is answered."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wanted: dict[tuple[str, int], tuple[int, int]] = {}
        """(topic, partition) -> (topic id, start offset) of each transaction that the operator ends."""
        self.exempt = 0

    def expect(self, rows: Iterable[TransactionRow]) -> None:
        """The transactions that the operator is about to end."""
        for row in rows:
            topic = self._world.cluster.image.topics.get(row.topic)
            topic_id = -1 if topic is None else topic.topic_id
            self._wanted[row.topic, row.partition] = topic_id, row.start_offset

    def marker(self, request: Any) -> list[Violation]:
        """An operator's marker is about to arrive."""
        found: list[Violation] = []
        for marker in request.markers:
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    producer = marker.producer_id, marker.producer_epoch
                    found += self._judged(topic.name, index, *producer, commit=bool(marker.transaction_result))
        return found

    def _judged(self, topic: str, index: int, producer_id: int, epoch: int, *, commit: bool) -> list[Violation]:
        world = self._world
        harmed = self._harm(len(world.moments) - 1, topic, index, producer_id, commit=commit)
        if harmed is None or harmed[1].epoch > epoch:
            return []
        kind, standing = harmed
        topic_id, start = self._wanted.get((topic, index), (-1, -1))
        is_another = topic_id not in {-1, standing.topic_id}
        reads = world.reads.get((topic, index), [])
        then = self._harm(reads[-1].moment, topic, index, producer_id, commit=commit) if reads else None
        marker = "a COMMIT" if commit else "an ABORT"
        what = f"{marker} marker on {topic}-{index} ends records of producer {producer_id} that are {kind}"
        if not reads or (then is not None and then[1].identity == standing.identity and then[0] == kind):
            return [Violation("I3", "made again" if is_another else kind, what)]
        stable = world.stable_reads.get((topic, index))
        is_later = stable is not None and stable.read.request > reads[-1].request
        if stable is not None and is_later and stable.offset > start >= stable.log_start:
            return [Violation("I3", "last stable offset", f"{what}, and the last stable offset had told")]
        self.exempt += 1
        return []

    def _harm(
        self, moment: int, topic: str, index: int, producer_id: int, *, commit: bool
    ) -> tuple[str, Standing] | None:
        """What the marker would have ended wrongly at that moment; None where nothing."""
        for key, standing in self._world.moments[moment].standings.items():
            if (key.topic, key.partition, key.producer_id) == (topic, index, producer_id):
                kind = (self._uncommitted if commit else self._kind_of_harm)(moment, key, standing)
                return None if kind is None else (kind, standing)
        return None

    def _kind_of_harm(self, moment: int, key: OpenKey, standing: Standing) -> str | None:
        txn = standing.transaction
        if standing.fate.is_owned and txn is not None and txn.serial in standing.serials:
            if standing.fate is Fate.LIVE:
                return "live"
            if txn.state == "PrepareCommit":
                return "committing"
        return "committed" if self._is_commit_shown(moment, key) else None

    def _is_commit_shown(self, moment: int, key: OpenKey) -> bool:
        """From the lock on, where it was searched for, up to that moment: a leader that remembers it may come later."""
        judged = self._world.moments[min(self._world.locked_from, moment) : moment + 1]
        standings = [(moment.standings.get(key), moment.committed) for moment in judged]
        return all(
            standing is None or standing.is_commit_shown or not standing.serials & committed
            for standing, committed in standings
        ) and any(standing is not None and standing.is_commit_shown for standing, _ in standings)

    def _uncommitted(self, moment: int, _key: OpenKey, standing: Standing) -> str | None:
        """What a COMMIT marker must not end: all that no coordinator has decided to commit."""
        if not standing.serials:
            return None  # its records are deleted
        if standing.fate is Fate.LIVE:
            return "live"
        committed = standing.serials & self._world.moments[moment].committed
        return None if committed else "not committed"

    def fence(self, request: Any) -> list[Violation]:
        """InitProducerId is about to arrive."""
        world, name = self._world, request.transactional_id
        txn = coordinator.truth_of(world.cluster, name)
        described = world.described.get(name, [])
        if txn is None or txn.state != "Ongoing" or not described or described[0] == txn.serial:
            return []
        if described[-1] == txn.serial:
            return [Violation("I3", "fenced", f"the newer transaction of {name!r} is fenced")]
        self.exempt += 1
        return []
