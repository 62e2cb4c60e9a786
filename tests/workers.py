"""Keeps tests with a common session together when `make` runs tests in two workers."""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

_TOGETHER = re.compile(
    r"(?P<spark>tests/(?:pipeline|fleet)/)"
    r"|(?P<stage>tests/verification/situations/test_situations\.py::test_situation\[[^-]+-[^-]+-)"
    r"|(?P<file>[^:]+)"
)


class ByRoom(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist is not typed
    """A file is one piece of work; so are all files that share a Spark session, and each stage of the situations.

    pytest-xdist's own groups by mark (3.8) have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        match = _TOGETHER.match(nodeid)
        assert match is not None, nodeid
        return "spark" if match["spark"] else match[0]
