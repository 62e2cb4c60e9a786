"""Selects topics by name: those that the settings exclude are not read, and are counted apart from unread ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from exporter.kafka.topology import Topology
from exporter.patterns import is_matched
from exporter.snapshot import BoolColumn


class TopicFilter:
    """`include` and `exclude` match whole names; without `include` every topic is included."""

    def __init__(self, include: Sequence[re.Pattern[str]], exclude: Sequence[re.Pattern[str]]) -> None:
        self._include = tuple(include)
        self._exclude = tuple(exclude)
        self._topics: tuple[str, ...] | None = None
        self._excluded: BoolColumn = np.empty(0, dtype=np.bool_)
        """(T,) of `_topics`: 50,000 names are matched once, not in every cycle."""

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude)

    def excludes(self, topic: str) -> bool:
        """True if the topic is not to be read."""
        is_included = not self._include or any(is_matched(pattern, topic) for pattern in self._include)
        return not is_included or any(is_matched(pattern, topic) for pattern in self._exclude)

    def excluded_rows(self, topology: Topology) -> BoolColumn | None:
        """(P,) the partitions of excluded topics; None if there is no filter."""
        if not self:
            return None
        if topology.topics is not self._topics:
            self._excluded = np.array([self.excludes(topic) for topic in topology.topics], dtype=np.bool_)
            self._topics = topology.topics
        return self._excluded[topology.topic]


NO_FILTER = TopicFilter((), ())
