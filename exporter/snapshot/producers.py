"""Records a partition's state of a producer, with Kafka's own names (ProducerState of DescribeProducersResponse.json)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Int8Column = npt.NDArray[np.int8]
Int16Column = npt.NDArray[np.int16]
Int32Column = npt.NDArray[np.int32]
Int64Column = npt.NDArray[np.int64]
BoolColumn = npt.NDArray[np.bool_]

NULL = int(np.iinfo(np.int64).min)
"""Value of an unknown number in a column; records and signatures have None."""

NO_PRODUCER_ID = -1
"""Producer id of an open transaction of which only the start offset is known (Kafka's RecordBatch.NO_PRODUCER_ID)."""

_Long = TypeVar("_Long", int, Int64Column)
_Int = TypeVar("_Int", int, Int32Column)
_Columns = TypeVar("_Columns", bound="ProducerEntries")


@dataclass(frozen=True, kw_only=True)
class ProducerEntry(Generic[_Long, _Int]):
    """One entry (of `int`), or a column of each field."""

    producer_id: _Long
    producer_epoch: _Int
    last_sequence: _Int
    last_timestamp: _Long
    """Time of the producer's last write, in milliseconds: the client's clock unless the topic uses LogAppendTime."""
    coordinator_epoch: _Int
    """-1 until its first marker on this partition."""
    current_txn_start_offset: _Long
    """Negative if no transaction is open."""


OneEntry = ProducerEntry[int, int]
ENTRY_FIELDS = tuple(column.name for column in fields(ProducerEntry))


class ProducerEntries(ProducerEntry[Int64Column, Int32Column]):
    """Columns of N entries; subclasses add columns."""

    def __len__(self) -> int:
        return len(self.producer_id)

    def columns(self) -> dict[str, Any]:
        """The values of an entry, by name."""
        return {name: getattr(self, name) for name in ENTRY_FIELDS}

    def one(self, index: int) -> OneEntry:
        return ProducerEntry(**{name: int(column[index]) for name, column in self.columns().items()})

    def all_columns(self) -> dict[str, Any]:
        """Returns the columns, with those of a subclass."""
        return {column.name: getattr(self, column.name) for column in fields(self)}

    def those(self: _Columns, rows: BoolColumn | Int64Column | slice) -> _Columns:  # noqa: PYI019 - typing.Self is 3.11+
        """Returns the producers of these rows; those of a slice share their memory."""
        return replace(self, **{name: column[rows] for name, column in self.all_columns().items()})

    @classmethod
    def joined(cls: type[_Columns], parts: Iterable[_Columns]) -> _Columns:  # noqa: PYI019
        """Joins all entries of `parts`, which must not be empty."""
        every = tuple(parts)
        return cls(
            **{column.name: np.concatenate([getattr(part, column.name) for part in every]) for column in fields(cls)}
        )
