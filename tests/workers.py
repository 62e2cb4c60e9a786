"""Keeps tests with a common session together when `make` runs tests in workers, and begins with what takes longest."""

from __future__ import annotations

import re
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

_TOGETHER = re.compile(
    r"(?P<spark>tests/(?:pipeline|fleet)/)"
    r"|(?P<login>tests/real_brokers/test_(?:security|canary_handshake)\.py)"
    r"|(?P<hasty>tests/workload/)"
    r"|(?P<stage>tests/verification/situations/test_situations\.py::test_situation\[[^-]+-[^-]+-)"
    r"|(?P<file>[^:]+)"
)


ROOMS: Final = ("spark", "login", "hasty")
"""Pieces of all tests that share a Spark session, the broker with every login, or the one that soon hands out time-outs."""
LONGEST: Final = (
    "spark",
    "login",
    *(f"tests/real_brokers/test_{name}.py" for name in ("command_line", "attacks", "serve", "outcome", "verdicts")),
    *(f"tests/runbooks/test_{name}.py" for name in ("exporter", "transactions", "brokers", "transaction_log")),
    *(f"tests/kafka/collect/test_{name}.py" for name in ("faults",)),
    *(f"tests/verification/{name}.py" for name in ("hostile/test_hostile", "hostile/test_web", "causes/test_causes")),
    *("tests/grafana/test_recorded.py", "tests/publication/test_page_in_browser.py", "tests/alerts/test_timelines.py"),
    *("tests/alerts/test_paging.py", "tests/test_demo.py"),
)
"""Pieces that begin first: one that begins last would run alone while the other workers have nothing to do."""


def place(scope: str) -> int:
    """Where a piece is in the order; those that are not among the longest come last."""
    return LONGEST.index(scope) if scope in LONGEST else len(LONGEST)


class ByRoom(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist is not typed
    """A file is one piece of work; so are all files of a room, and each stage of the situations.

    pytest-xdist's own groups by mark (3.8) have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        match = _TOGETHER.match(nodeid)
        assert match is not None, nodeid
        return next((room for room in ROOMS if match[room]), match[0])

    def _assign_work_unit(self, node: Any) -> None:
        """Of pieces with the same place the one with the most tests is first."""
        self.workqueue.move_to_end(min(self.workqueue, key=place), last=False)
        super()._assign_work_unit(node)
