"""tests/README.md leads from every room, rule and invariant to its tests: none of them is without one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests import index, rooms
from tests.index import INDEX, KINDS, RULES, File
from tests.marks import FOREIGN

FILES = {file.name: file for file in INDEX.files}


def test_every_room_has_tests() -> None:
    """In its own folder, or elsewhere."""
    assert [room.name for room in rooms.rooms() if not any(index.tests_of(room.name.removesuffix(".py")))] == []


def test_every_rule_of_verdicts_is_decided_by_a_row() -> None:
    """By itself, or through one that is."""
    by_row = {name for name in index.public_functions(RULES) if index.rows_of(name)}
    assert len(by_row) > 10
    assert [
        name
        for name in index.public_functions(RULES)
        if name not in by_row and by_row.isdisjoint(caller for _, caller in index.callers(RULES, name))
    ] == []


def test_every_verdict_has_its_predicate() -> None:
    assert len(index.verdicts_by_predicate()) >= 9


def test_every_invariant_is_checked_and_missed() -> None:
    """A function of the model reports its violation, and a known lie or defect makes it do so."""
    assert index.invariants() == [f"I{number}" for number in range(1, 9)]
    assert [name for name in index.invariants() if not index.checks_of(name)] == []
    assert [name for name in index.invariants() if not any(index.found_by(name))] == []


def test_every_guard_of_recovery_is_called_by_a_test() -> None:
    """By name, or through a function that a test or a command calls."""

    def is_tested(path: str, function: str) -> bool:
        users = ((path, function), *index.callers(path, function))
        return any(INDEX.using(*user) or index.commands_with(*user) for user in users)

    paths = [f"recovery/{file}" for file in index.GUARDED]
    guards = [(path, function) for path in paths for function in index.public_functions(path)]
    assert len(guards) > 15
    assert [guard for guard in guards if not is_tested(*guard)] == []
    assert ("recovery/partition.py", "PartitionOnBrokers") in index.callers("recovery/partition.py", "confirm_all")
    assert {name for _, name in index.callers("recovery/plan.py", "is_closed")} >= {"carry_out"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("real_brokers/test_verdicts.py", "broker"),
        ("kafka/collect/test_proofs.py", "tests.kafka.fake_broker"),
        ("incidents/test_document.py", ""),
        ("transaction_log/test_records.py", "hypothesis"),
        ("pipeline/test_jobs.py", "spark"),
        ("verification/model/test_model.py", "tests.verification.model"),
        ("commands/test_golden.py", "tests.commands.golden"),
        ("helm/test_api_server.py", "api_server"),
    ],
)
def test_the_kind_of_a_file_comes_from_marks_fixtures_and_imports(name: str, kind: str) -> None:
    assert FILES[name].kind == KINDS[kind]


def test_every_mark_of_foreign_programs_is_a_kind() -> None:
    assert set(FOREIGN) <= set(KINDS)


def test_functions_of_the_same_name_are_told_apart() -> None:
    """Two rooms have `in_words`; a test of one is not a test of the other."""

    def tested(path: str) -> Iterable[File]:
        return [file for file in INDEX.files if file.using(f"exporter.{path}", "in_words") is not None]

    plan, timeouts = tested("recovery.plan"), tested("transaction_log.timeouts")
    assert plan
    assert timeouts
    assert {file.name for file in plan}.isdisjoint(file.name for file in timeouts)
