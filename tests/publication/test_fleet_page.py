"""The pages of a fleet: the worst first, a page for each cluster, names from outside never as HTML or as a path."""

from __future__ import annotations

import re
from dataclasses import replace

from exporter.publication.exposition import Renderer
from exporter.publication.page.fleet import render_overview
from exporter.publication.publication import Publication
from exporter.web.routes import Request, Routes
from tests.publication.builders import render_pages
from tests.publication.scenarios import before_first_cycle, healthy, partial_coverage, stale, three_hangs

NASTY = 'a/../b <i>"&\n%41'


def named(publication: Publication, name: str) -> Publication:
    return replace(publication, cluster=name)


def answer(routes: Routes, path: str) -> tuple[int, str]:
    response = routes.answer(Request(method="GET", path=path, headers={}))
    return response.status, b"".join(response.chunks).decode()


def test_the_worst_cluster_comes_first_and_has_its_page() -> None:
    """The overview links each, and an odd name is neither HTML nor another path."""
    publications = [named(healthy(), "well"), named(before_first_cycle(), "new"), named(three_hangs(), NASTY)]
    routes = Routes(lambda: None)
    routes.publish(Renderer().render(*publications), render_pages(publications), is_ready=True)

    overview = answer(routes, "/")[1]
    assert re.findall(r'href="(/clusters/[^"]*)"', overview) == [
        "/clusters/a%2F..%2Fb%20%3Ci%3E%22%26%0A%2541",
        "/clusters/new",
        "/clusters/well",
    ]
    assert "<i>" not in overview
    status, page = answer(routes, f"/clusters/{NASTY}")
    assert (status, "Proved: no coordinator will write their markers." in page, "<i>" in page) == (200, True, False)
    assert '<a href="/">all clusters</a>' in page
    assert answer(routes, "/clusters/b")[0] == 404


def test_the_overview_links_to_the_runbooks_that_are_named() -> None:
    page = render_overview([named(healthy(), "a")], runbooks="https://wiki.example.org/rb")
    assert 'href="https://wiki.example.org/rb/README.md"' in page.with_alarm(None).decode()


def test_a_cluster_that_needs_attention_says_why() -> None:
    """A dead one has its last failure, and the fleet's state counts the clusters at each level."""
    publications = [named(healthy(), "well"), named(stale(), "dead"), named(three_hangs(), "hung")]
    overview = render_pages(publications)["/"].with_alarm(None).decode()

    assert '<div class="banner bad" id="headline"' in overview
    assert "<strong>1 cluster with hanging transactions; 1 cluster without a current snapshot</strong>" in overview
    cards = re.findall(r'<article class="suspect">.*?</article>', overview, re.DOTALL)
    assert [re.search("/clusters/([a-z]+)", card)[1] for card in cards] == ["hung", "dead"]  # type: ignore[index]
    assert "The last cycle failed: No broker of kafka-1.example:9092 could be reached." in cards[1]
    assert "well" not in "".join(cards)


def test_a_fleet_is_green_only_if_every_cluster_is() -> None:
    """One that is partly unread makes it a warning."""
    well, partial = named(healthy(), "well"), named(partial_coverage(), "partial")
    assert '<div class="banner good"' in render_pages([well])["/"].with_alarm(None).decode()
    assert '<div class="banner warning"' in render_pages([well, partial])["/"].with_alarm(None).decode()


def test_every_series_of_a_cluster_is_labelled_and_escaped() -> None:
    """As both formats write a value; what is of the process is said once."""
    publications = [named(healthy(), "well"), named(three_hangs(), NASTY)]
    text = Renderer().render(*publications).text.body.decode()

    label = 'cluster="a/../b <i>\\"&\\n%41"'
    assert f"kafka_transaction_exporter_cycles_total{{{label}}}" in text
    assert text.count("# TYPE kafka_transaction_exporter_cycles_total ") == 1
    assert len(re.findall(r"^kafka_transaction_exporter_config_last_reload_successful 1$", text, re.MULTILINE)) == 1
    assert f'kafka_suspect_transaction_start_timestamp_seconds{{{label},topic="' in text
