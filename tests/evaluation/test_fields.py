"""Each field of an open transaction is declared once: every output has it, or says why not."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import exporter
from exporter.daemon import state_file
from exporter.evaluation.document import TRANSACTION_KEYS
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.field_types import ColumnType, Field, Output
from exporter.evaluation.fields import FIELDS, fields_of, project
from exporter.evaluation.table import FOUND, column
from exporter.evaluation.verdicts import TransactionRow
from exporter.fleet.scan_table import SCAN
from exporter.history.schema import OBSERVATION_COLUMNS
from exporter.incidents import document
from exporter.incidents.follow import follow
from exporter.incidents.incident import NO_INCIDENTS
from exporter.publication.metrics import transactions
from exporter.recovery import plan_file
from exporter.snapshot import TransactionKey
from tests.commands.scenes import every_kind

NAMES = [field.name for field in FIELDS]


def names_in(output: Output) -> set[str]:
    return {field.name_in(output) for field in fields_of(output)}


@pytest.mark.parametrize("field", FIELDS, ids=NAMES)
def test_a_field_is_declared_completely(field: Field) -> None:
    """It has a meaning, a place in the row, a function that finds its value, and a reason for each output without it."""
    assert field.meaning
    assert field.name in {each.name for each in fields(TransactionRow)}
    assert field.name in FOUND
    assert all(field.left_out.values())
    assert not field.left_out.keys() & field.names.keys()
    assert (field.record is not None) >= (field.kind is ColumnType.RECORD)


def test_nothing_else_is_in_a_row() -> None:
    assert sorted(NAMES) == sorted(each.name for each in fields(TransactionRow)) == sorted(FOUND)


def test_each_output_has_what_is_declared_for_it() -> None:
    """What an output has besides the fields of an open transaction is named here."""
    of_an_incident = {"suspect_at_ms", "ended_at_ms", "worst_verdict", "cause", "because", "markers"}
    of_a_memory = {"first_seen_ms", "last_seen_ms", "coordinator_start_ms", "completing_since_ms", "not_open_at_ms"}
    keys = set(TransactionKey._fields)
    open_there = SCAN.field("open_transactions").type.value_type

    assert set(TRANSACTION_KEYS) == names_in(Output.JSON)
    assert {each.name for each in OBSERVATION_COLUMNS} == names_in(Output.HISTORY) | {"taken_at", "cause"}
    assert {each.name for each in fields(plan_file.PlannedAbort)} == names_in(Output.PLAN)
    assert set(plan_file._ENTRY) == names_in(Output.PLAN) | {"evidence"}
    assert suspect_keys() == names_in(Output.INCIDENT) | of_an_incident
    assert {*transactions.TRANSACTION, "the value, in seconds"} == names_in(Output.SERIES)
    assert keys | {*state_file._REMEMBERED, *state_file._STARTS} == names_in(Output.STATE) | of_a_memory | {
        "clock_offset_ms"
    }
    assert {"topic", "topic_id", "partition", *(each.name for each in open_there)} == names_in(Output.SCAN)


def suspect_keys() -> set[str]:
    """The keys of a suspect in the JSON of an incident."""
    incident, *_ = follow(NO_INCIDENTS, every_kind()).all
    suspect, *_ = document.of_incident(incident)["suspects"]
    return set(suspect)


def test_a_row_and_a_column_have_the_same_values() -> None:
    """Columns that are not made of rows are as the rows are."""
    evaluation = every_kind()
    rows = all_rows(evaluation)

    assert len(rows) >= 4
    for name in NAMES:
        values = list(column(evaluation, name))
        assert values == [getattr(row, name) for row in rows], name


def test_what_is_unknown_is_null_in_json() -> None:
    """Also a topic id, which is an empty text in a key."""
    row, *_ = all_rows(every_kind())
    printed = project(row, Output.JSON)

    assert (row.topic_id, printed["topic_id"]) == ("", None)
    assert printed["unusual"] is None
    assert list(printed) == list(TRANSACTION_KEYS)


def test_the_start_has_one_name() -> None:
    """It is start_ms, in the coordinator's and in the log's words too; other names are promised, in these files alone."""
    promised = {
        "commands/describe.py": {"start_time_ms"},  # a key of its JSON
        "evaluation/fields.py": {"start_timestamp_ms"},  # the key in find-hanging's JSON
    }
    folder = Path(exporter.__file__).parent
    others = {
        path.relative_to(folder).as_posix(): found - {"start_ms"}
        for path in folder.rglob("*.py")
        if (found := set(re.findall(r"\b(?:begun|start(?:_[a-z]+)*)_(?:ms|timestamp)\b", path.read_text())))
        - {"start_ms"}
    }
    assert others == {**promised, "kafka/leadership/confirm.py": {"begun_ms"}}  # of a request
