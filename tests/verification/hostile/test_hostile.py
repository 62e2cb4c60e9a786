"""Runs the table of hostile brokers, in small sizes."""

from __future__ import annotations

import pytest

from tests.verification.hostile.judge import complaints
from tests.verification.hostile.measure import once, under
from tests.verification.hostile.peer import Peer
from tests.verification.hostile.shapes import SHAPES, Shape

pytestmark = pytest.mark.long

ALIKE = frozenset(
    {
        "throttled for -2^31 ms",  # as for 2^31-1 ms
        "every int64 at its beginning",  # as at its end
        "transaction.max.timeout.ms below zero",  # as one of 5,000 digits
        "transaction.max.timeout.ms that is no number",
        "ids that are no UTF-8",  # as names
        "bytes too many",  # as bytes that are missing
        "NOT_LEADER_OR_FOLLOWER for ever",  # as NOT_COORDINATOR
        "ApiVersions backwards",  # as without APIs
    }
)
"""Left to `make test-all`."""


@pytest.fixture(scope="module")
def idle_mb() -> float:
    """The memory of `once` on a cluster that is not hostile."""
    with Peer() as peer:
        return once(peer).mb


@pytest.mark.parametrize(
    "shape",
    [pytest.param(each, marks=pytest.mark.slow if each.name in ALIKE else (), id=each.name) for each in SHAPES],
)
def test_it_is_bounded_and_reports_nothing_untrue(shape: Shape, idle_mb: float) -> None:
    """It ends by itself, says what is missing, calls nothing hanging that lives, and takes what the table allows.

    Finds work or memory that grows faster than what was sent, a loop of requests without an end, a value that ends the
    program, and names that reach a terminal or a scraper as they are.
    """
    run = under(shape, shape.small)

    print(f"{shape.name}: {run.cpu_s:.2f} s of CPU, {run.mb - idle_mb:+.0f} MB, {run.requests} requests")
    assert complaints(shape, shape.small.bounds, run, idle_mb) == ()
