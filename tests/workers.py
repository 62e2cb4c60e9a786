"""Keeps tests with a common session together when `make` runs tests in workers, and begins with what takes longest."""

from __future__ import annotations

import re
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

from hangbench.kafka.maven import SUPPORTED

_TOGETHER = re.compile(
    r"(?P<jobs>tests/pipeline/test_(?:jobs|other_writers|random_histories|worlds_with_other_tools)\.py)"
    r"|(?P<spark>tests/(?:pipeline|fleet)/)"
    r"|(?P<broker>tests/(?:alerts/test_paging|helm/test_as_a_node_would|kafka/test_(?:coordinators|fake_broker)"
    r"|real_brokers/test_(?:attacks|busy|command_line|impact|marker_refused|once|oracle|outcome|raw_answers|reload|serve|why"
    r"|verdicts)|test_(?:brokers|planting)|hangbench/test_(?:adapters|ground))\.py)"
    rf"(?:::.*(?P<version>{'|'.join(map(re.escape, SUPPORTED[1:]))}))?"
    r"|(?P<login>tests/real_brokers/test_(?:security|canary_handshake)\.py)"
    r"|(?P<hasty>tests/workload/)"
    r"|(?P<stage>tests/verification/situations/test_situations\.py::test_situation\[[^-]+-[^-]+-)"
    r"|(?P<file>[^:]+)"
)


ROOMS: Final = ("spark", "jobs", "broker", "login", "hasty")
"""Tests that share one of two Spark sessions, the session's broker of a version, the broker with every login, or the one
that soon hands out time-outs."""
LONGEST: Final = (
    "spark",
    "jobs",
    "broker",
    "login",
    "hasty",
    *(f"tests/runbooks/test_{name}.py" for name in ("exporter", "transactions", "brokers", "transaction_log")),
    "tests/alerts/test_pasting.py",
    *(f"tests/kafka/collect/test_{name}.py" for name in ("faults",)),
    *(
        f"tests/verification/{name}.py"
        for name in ("standstill/test_standstill", "hostile/test_hostile", "hostile/test_web", "causes/test_causes")
    ),
    *("tests/grafana/test_recorded.py", "tests/publication/test_page_in_browser.py", "tests/alerts/test_timelines.py"),
    *("broker 3.9.1", "tests/test_demo.py", "tests/storage/test_pipeline.py", "tests/storage/test_history.py"),
    *("tests/real_brokers/test_log_reader.py", "tests/test_isolation.py", "tests/helm/test_rendering.py"),
    *("tests/verification/model/test_model.py", "tests/kafka/client/test_api_versions.py"),
    *(
        f"tests/real_brokers/test_{name}.py"
        for name in ("three_nodes", "transaction_log", "share_groups", "doctor", "protection")
    ),
    *(f"tests/real_brokers/test_{name}.py" for name in ("least_privilege", "acls", "client_errors")),
    *("tests/test_canary.py", "tests/helm/test_hostile_values.py", "tests/kafka/client/test_oauth.py"),
)
"""Pieces that begin first: one that begins last would run alone while the other workers have nothing to do. Those with a
broker of their own wait while it starts, and the others have time for the rest.
"""


def piece_of(nodeid: str) -> str:
    """What of the tests is given to one worker in one go."""
    match = _TOGETHER.match(nodeid)
    assert match is not None, nodeid
    if match["version"]:
        return f"broker {match['version']}"
    return next((room for room in ROOMS if match[room]), match[0])


def place(scope: str) -> int:
    """Where a piece is in the order; those that are not among the longest come last."""
    return LONGEST.index(scope) if scope in LONGEST else len(LONGEST)


class ByRoom(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist is not typed
    """A file is one piece of work; so are all files of a room, and each stage of the situations.

    pytest-xdist's own groups by mark (3.8) have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        """Of pieces with the same place the one with the most tests is first."""
        self.workqueue.move_to_end(min(self.workqueue, key=place), last=False)
        super()._assign_work_unit(node)
