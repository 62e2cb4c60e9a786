"""Runs the table of malicious web clients, in small sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hangbench.waiting import until
from tests.kafka.loopback import HOST
from tests.verification.hostile.attacks import many_topics
from tests.verification.hostile.peer import Peer
from tests.verification.hostile.web import CROWDS, PATIENCE_S, PROBE, SCRAPER, TOPICS, Crowd, Door, besieged, opened
from tests.verification.soak.resources import Resources

pytestmark = pytest.mark.long

DESCRIPTORS_MORE = 5
ALSO_PLAIN = ("idle", "a page that is not read")
"""Without TLS the server buffers otherwise; the other crowds come by TLS alone in `make test`."""


@pytest.fixture(scope="module")
def door(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One exporter for all crowds: what one of them leaves behind shows at the next."""
    with Peer() as peer:
        many_topics(peer, TOPICS)
        folder = tmp_path_factory.mktemp("web")
        with opened(folder, f"{HOST}:{peer.ports[1]}", with_tls=request.param) as opened_door:
            yield opened_door


@pytest.mark.parametrize(
    ("door", "crowd"),
    [
        pytest.param(
            with_tls,
            crowd,
            id=f"{'tls' if with_tls else 'plain'}-{crowd.name}",
            marks=[] if with_tls or crowd.name in ALSO_PLAIN else pytest.mark.slow,
        )
        for with_tls in (False, True)
        for crowd in CROWDS
        if with_tls or not crowd.only_tls
    ],
    indirect=["door"],
)
def test_the_scraper_and_the_probe_are_served_alongside_strangers(door: Door, crowd: Crowd) -> None:
    """Each request of theirs gets its 200, memory stays within its bound, and afterwards no connection is left.

    Finds a crowd that takes all places, work of strangers that keeps the event loop, and connections that stay.
    """
    assert (door.status("/metrics", SCRAPER), door.status("/-/healthy", PROBE)) == (200, 200)
    before = Resources.of(door.process)

    siege = besieged(door, crowd, crowd.small)

    print(f"{crowd.name}: {siege}")
    assert siege.visits >= crowd.small
    assert (set(siege.scrapes), set(siege.probes)) == ({200}, {200})
    assert siege.grew_mb < crowd.mb
    most = before.descriptors + DESCRIPTORS_MORE
    until(lambda: Resources.of(door.process).descriptors, most.__ge__, patience_s=PATIENCE_S)
