"""The order in which workers are given their pieces of the tests."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from tests.workers import LONGEST, ByRoom, piece_of, place

ROOT = Path(__file__).parents[1]


class Worker:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[list[int]] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given.append(indices)


def scheduler_of(worker: Worker, tests: list[str]) -> ByRoom:
    made: Any = ByRoom.__new__(ByRoom)
    made.workqueue = OrderedDict()
    for test in tests:
        made.workqueue.setdefault(made._split_scope(test), {})[test] = False
    made.assigned_work, made.registered_collections = {worker: {}}, {worker: tests}
    scheduler: ByRoom = made
    return scheduler


def test_the_longest_pieces_begin_first() -> None:
    """Spark's two sessions before all, a piece each; a version's broker has one; short files come in their own order."""
    tests = [
        "tests/config/test_loading.py::test_a",
        "tests/config/test_shown.py::test_b",
        f"{LONGEST[4]}::test_c",
        "tests/pipeline/test_jobs.py::test_d",
        "tests/fleet/test_engine.py::test_e",
        "tests/real_brokers/test_security.py::test_f",
        "tests/real_brokers/test_canary_handshake.py::test_g",
        "tests/real_brokers/test_once.py::test_h",
        "tests/real_brokers/test_once.py::test_i[3.9.1]",
        "tests/test_brokers.py::test_j[4.3.1]",
    ]
    worker = Worker()
    scheduler = scheduler_of(worker, tests)
    for _ in range(8):
        scheduler._assign_work_unit(worker)

    assert worker.given == [[4], [3], [7, 9], [5, 6], [2], [8], [0], [1]]


def test_the_longest_pieces_exist() -> None:
    """A file that has another name would begin when it comes."""
    assert [piece for piece in LONGEST if piece.startswith("tests/") and not (ROOT / piece).is_file()] == []
    assert [place(piece) for piece in LONGEST] == list(range(len(LONGEST)))


def test_tests_that_share_a_broker_share_a_worker(request: pytest.FixtureRequest) -> None:
    """Of all tests of this run: one that is elsewhere would boot a broker in another worker. Spark's room has its own."""
    pieces = {
        piece_of(item.nodeid)
        for item in request.session.items
        if "session_cluster" in getattr(item, "fixturenames", ())
    }

    assert {piece.split()[0] for piece in pieces} <= {"broker", "spark"}
