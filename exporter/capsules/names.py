"""Replaces the names in recorded cycles: the same name gets the same replacement, everywhere.

What depends on a name is kept. Replacements of ids and groups have the same partition of `__transaction_state` and
`__consumer_offsets` by Kafka's hash, so every proof stays what it was; ids with a common prefix have one afterwards; and
names of a kind stay in their order. Sentences, which may quote anything, are left out.
"""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from exporter.capsules.codec import BytePool, decoded, encoded
from exporter.capsules.cycle import Mark, RecordedCycle, RecordedExchange, TapeMoment
from exporter.kafka.messages.recorded import RenameText, renamed
from exporter.kafka.state_partitions import java_hash_partition, java_hashes, partitions_of_hashes
from exporter.patterns import prefix_of

_RANKS: Final = ("id", "group", "topic", "prefix", "host", "cluster", "user", "path", "name")
"""Kinds of names; a name of two kinds is of the first."""
_FIELDS_OF_KIND: Final = {
    "id": "transactional_id|of_ids key|transactional_ids key",
    "group": "group",
    "topic": "topic|topics|topics key|visible|hidden|hidden_since_s key|topic_ids key|excluded|first_row key|left_out key|"
    "topic_errors key|place|requested|sizes key|unread|partitions|ended key",
    "prefix": "of_prefixes key",
    "host": "host",
    "cluster": "cluster_id|cluster_ids",
    "path": "path",
    "sentence": "failures|out_of_date|state_topic_gap|detail|unconfirmed|of",
    "topic id": "topic_id|topic_ids",
    "kept": "api|reasons|others key",
}
_KIND_OF_FIELD: Final = {field: kind for kind, fields in _FIELDS_OF_KIND.items() for field in fields.split("|")}
_KEPT: Final = frozenset({"__transaction_state", "__consumer_offsets", "__cluster_metadata", "__share_group_state"})
_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}")
_NAME_LENGTH_MIN: Final = 2
"""Length of a name that says something. ACLs with prefixes of one letter decide which ids are made up for probes."""
_LEFT_OUT: Final = "(left out)"
_LETTERS: Final = 3
_SUFFIXES: Final = tuple(map("".join, itertools.product(string.ascii_lowercase, repeat=_LETTERS)))
_MADE_UP_LENGTH: Final = 32
"""Length of the random part of an id that was made up for a probe."""


class Names:
    """The names of some cycles, and what they are replaced by."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._hashed: set[str] = set()
        self._made_up: set[str] = set()
        self._map: dict[str, str] = {}

    def note(self, cycle: RecordedCycle) -> None:
        """Notes all names of a cycle. Raises MalformedResponseError."""
        self._made_up.update(text for moment in cycle.moments if moment.mark is Mark.PROBE_IDS for text in moment.texts)
        transformed(cycle, self._note)

    def _note(self, text: str, kind: str) -> str:
        if kind == "sentence" or self._is_kept(text, kind):
            return text
        kind = "name" if kind == "topic id" else kind
        self._kinds[text] = min(self._kinds.get(text, kind), kind, key=_RANKS.index)
        if kind in {"id", "group"}:
            self._hashed.add(text)
        if kind == "id" and prefix_of(text) != text:
            self._note(prefix_of(text), "prefix")
        return text

    def _is_kept(self, text: str, kind: str) -> bool:
        is_topic_id = kind == "topic id" and _TOPIC_ID.fullmatch(text) is not None
        is_made_up = text[-_MADE_UP_LENGTH:] in self._made_up
        return len(text) < _NAME_LENGTH_MIN or text in _KEPT or kind == "kept" or is_topic_id or is_made_up

    def choose(self, *partitions: int) -> None:
        """Chooses the replacements, which hash to the same of so many partitions of each internal topic."""
        in_order = sorted(self._kinds, key=lambda name: (self._kinds[name] == "id", self._kinds[name], name))
        for number, name in enumerate(in_order, 1):
            prefix, word = prefix_of(name), self._kinds[name].replace("prefix", "app")
            if word == "id" and prefix != name:
                known = self._map.get(prefix, prefix)
                word = f"{known if known.isascii() else 'app'}-"
            base = f"{word}{number:06}"
            self._map[name] = base + _suffix(name, base, partitions) if name in self._hashed else base

    def rename(self, text: str, kind: str) -> str:
        """The replacement of a name."""
        if kind == "sentence":
            return _LEFT_OUT if text else ""
        beginning = text[:-_MADE_UP_LENGTH]
        if kind == "id" and beginning and text[-_MADE_UP_LENGTH:] in self._made_up:  # made from an ACL's pattern
            known = next((cut for cut in (beginning, beginning[:-1]) if cut in self._map), "")
            return self._map.get(known, "") + text[len(known) :]
        return text if self._is_kept(text, kind) else self._map[text]

    def counts(self) -> Mapping[str, int]:
        """Returns the number of replaced names of each kind."""
        return dict(sorted(Counter(self._kinds.values()).items()))


def transformed(cycle: RecordedCycle, rename: RenameText) -> RecordedCycle:
    """The cycle with other names. Raises MalformedResponseError, or CapsuleError."""
    pool = BytePool()
    exchanges = [_exchange(each, rename) for each in cycle.exchanges]
    data = encoded(
        replace(cycle, exchanges=exchanges, moments=()),
        RecordedCycle,
        pool,
        lambda text, field: rename(text, _KIND_OF_FIELD.get(field, "name")),
    )
    moments = tuple(_moment(moment, rename) for moment in cycle.moments if moment.mark is not Mark.TOO_NEW)
    copy: RecordedCycle = decoded(data, RecordedCycle, BytePool(bytes(pool.content)))
    return replace(copy, moments=moments)


def _moment(moment: TapeMoment, rename: RenameText) -> TapeMoment:
    """One whose texts have no names of the cluster."""
    if moment.mark is Mark.ACL_PROBES:
        return moment._replace(texts=tuple(rename(text, "id") if text else "" for text in moment.texts))
    return moment if moment.fault is None else moment._replace(texts=(moment.fault.value,))


def _exchange(exchange: RecordedExchange, rename: RenameText) -> RecordedExchange:
    """One whose names are not known has no response afterwards: the positions of share groups."""
    key, version = exchange.key, exchange.version
    request = renamed(key, version, exchange.request, rename, is_request=True)
    response = renamed(key, version, exchange.response, rename, is_request=False) if exchange.response else None
    return replace(exchange, request=request or b"", response=response)


def _suffix(name: str, base: str, partitions: tuple[int, ...]) -> str:
    """Letters after which `base` hashes to the partitions of `name`; none if there are none."""
    hashes = java_hashes(_characters([base])) * np.uint32(31**_LETTERS) + _SUFFIX_HASHES
    fits = np.ones(len(hashes), dtype=np.bool_)
    for count in filter(None, partitions):
        fits &= partitions_of_hashes(hashes, count) == java_hash_partition(name, count)
    found = np.flatnonzero(fits)
    return _SUFFIXES[int(found[0])] if len(found) else ""


def _characters(texts: Sequence[str]) -> npt.NDArray[np.uint8]:
    """(N, L) the ASCII characters of texts of one length."""
    return np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8).reshape(len(texts), -1)


_SUFFIX_HASHES: Final = java_hashes(_characters(_SUFFIXES))
