"""Declares what a field of an open transaction is: its type, its name in each output, its conversion to a value there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from exporter.evaluation.verdicts import WaitingGroup


class Output(Enum):
    """Output in which a field may appear."""

    JSON = "`find-hanging` and `once`, as JSON and CSV"
    HISTORY = "the history's table `observations`"
    PLAN = "a plan file, whose hangs `abort` proves again"
    INCIDENT = "a suspect of an incident, as JSON"
    SERIES = "the labels and the value of the series of suspects"
    STATE = "the state file"
    SCAN = "the table that Spark's executors return"


class ColumnType(Enum):
    """The type of a column. Instants are UTC, in milliseconds."""

    TEXT = "string"
    INTEGER = "int32"
    LONG = "int64"
    FLAG = "bool"
    INSTANT = "timestamp[ms]"
    TEXTS = "list<string>"
    RECORD = "struct"


class Greatest(Enum):
    """The rows of the pipeline that keep the greatest observed value of a column."""

    NOT_KEPT = "not kept"
    OF_PARTITION = "of a transaction on one partition"
    OF_TRANSACTION = "of a transaction on one partition, and of the whole transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of an open transaction. `name` is the attribute of `TransactionRow`."""

    name: str
    kind: ColumnType
    meaning: str
    null: str = ""
    """Meaning of null; empty if the field never is null."""
    values: type[Enum] | None = None
    """The values that a text can have; None if there is no such list."""
    minimum: int | None = 0
    """The least number."""
    record: type | None = None
    """The record of a RECORD, or of each element of TEXTS in JSON."""
    left_out: Mapping[Output, str] = field(default_factory=lambda: MappingProxyType({}))
    """Output -> why it is not there."""
    names: Mapping[Output, str] = field(default_factory=lambda: MappingProxyType({}))
    """Output -> its name there, where that is promised and another one."""
    is_empty_where_null: bool = False
    """True if a row, and a plan file, have an empty text for null."""
    of_suspects_only: bool = False
    """True if the field of other transactions than suspects is null, or empty text, in the history."""
    has_blocking: bool = False
    """True if live transactions that block a group have it there, too."""
    is_new_in_history: bool = False
    """Files of 0.1.0 lack it."""
    greatest: Greatest = Greatest.NOT_KEPT

    @property
    def labels(self) -> tuple[str, ...]:
        """The published names of `values`."""
        return () if self.values is None else tuple(map(_label, self.values))

    def name_in(self, output: Output) -> str:
        """The name in an output that has it."""
        return self.names.get(output, self.name)

    def conversion(self, output: Output) -> Callable[[Any], Any] | None:
        """The function from the value in a row to that in an output; None if they are the same."""
        if self.record is not None:
            return _record if self.kind is ColumnType.RECORD else _groups if output is Output.HISTORY else _records
        if self.kind is ColumnType.TEXTS:
            return list
        if self.values is not None:
            return _label_or_null
        return _text_or_null if self.is_empty_where_null and output is not Output.PLAN else None


def _text_or_null(value: str) -> str | None:
    return value or None


def _label(value: Any) -> str:
    """The published name: numbered values have a label."""
    name: str = getattr(value, "label", value.value)
    return name


def _label_or_null(value: Any) -> str | None:
    return None if value is None else _label(value)


def _record(value: Any) -> Any:
    return None if value is None else {name: getattr(value, name) for name in value.__dataclass_fields__}


def _records(values: Any) -> Any:
    return [_record(value) for value in values]


def _groups(groups: Iterable[WaitingGroup] | None) -> list[str]:
    """The names alone of those that stand still: the history has no column of records."""
    return [group.group for group in groups or () if group.stands_still]
