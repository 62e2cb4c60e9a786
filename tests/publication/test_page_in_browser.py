"""The status page in a real browser: headless Chromium asks the real web server; the pictures are kept to be looked at.

Pictures are written to `build/artefacts/`.
"""

from __future__ import annotations

import re
from html import unescape

import pytest

from exporter.evaluation.verdicts import Verdict
from exporter.publication.exposition import Renderer
from exporter.publication.page.page import render_page
from exporter.publication.publication import Publication
from exporter.web.routes import Routes
from exporter.web.server import WebServer
from tests.browser import Browser, assert_painted, open_browser
from tests.marks import starts
from tests.publication.builders import Partition, evaluation, hanging, inconclusive, published
from tests.publication.scenarios import healthy, partial_coverage, stale, three_hangs

LONG_TOPIC = "x" * 249
DARK = ("--blink-settings=preferredColorScheme=0",)
PHONE = ("--window-size=412,900",)


def two_hundred_suspects() -> Publication:
    """As many as the page shows, one of them on a topic with the longest name that Kafka allows."""
    topics = [LONG_TOPIC, *(f"team-{number % 7}.service-{number}.events" for number in range(199))]
    rows = [
        (hanging if number % 3 != 1 else inconclusive)(
            topic,
            producer_id=4000 + number,
            start_offset=number,
            transactional_id=f"service-{number}-{'tx' * (number % 40)}" if number % 2 else None,
            duration_ms=(200 - number) * 1_234_567,
            verdict=Verdict.HANGING_NOT_IN_TRANSACTION if number % 3 != 1 else Verdict.INCONCLUSIVE,
        )
        for number, topic in enumerate(topics)
    ]
    partitions = [Partition(topic=topic) for topic in topics]
    return published(evaluation(partitions, rows))


@pytest.fixture(scope="module")
@starts("browser")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return open_browser(tmp_path_factory.mktemp("chromium"))


def _site(publication: Publication) -> Routes:
    routes = Routes(lambda: None)
    routes.publish(Renderer().render(publication), render_page(publication), is_ready=True)
    return routes


def test_a_healthy_cluster_is_green_and_says_what_was_read(browser: Browser) -> None:
    """The browser finds the green headline and no list of suspects."""
    with WebServer("127.0.0.1:0", _site(healthy())) as web:
        document = browser.elements(web.url)
        assert_painted(browser.picture(web.url, "page-healthy"))
    assert 'class="banner good" id="headline"' in document
    assert "No suspect in 2 partitions, all read" in _text(document)
    assert 'id="suspects"' not in document


def test_three_suspects_can_be_read_in_both_colour_schemes(browser: Browser) -> None:
    """Each suspect is an article with its partition and verdict; light, dark and narrow are all painted."""
    with WebServer("127.0.0.1:0", _site(three_hangs())) as web:
        document = browser.elements(web.url)
        light = browser.picture(web.url, "page-three-suspects")
        dark = browser.picture(web.url, "page-three-suspects-dark", "--window-size=1280,1400", *DARK)
        phone = browser.picture(web.url, "page-three-suspects-phone", *PHONE)
    assert document.count('<article class="suspect">') == 3
    assert 'we"ird\\topic-0' in unescape(document)
    assert "2 transactions hanging" in _text(document)
    for picture in (light, dark, phone):
        assert_painted(picture)
    assert light != dark


def test_two_hundred_suspects_can_be_read(browser: Browser) -> None:
    """All are there, and the longest topic name that Kafka allows does not widen the page."""
    with WebServer("127.0.0.1:0", _site(two_hundred_suspects())) as web:
        document = browser.elements(web.url)
        assert_painted(browser.picture(web.url, "page-200-suspects"))
        assert_painted(browser.picture(web.url, "page-200-suspects-phone", *PHONE))
    assert document.count('<article class="suspect">') == 200
    assert f"{LONG_TOPIC}-0" in document


def test_partial_coverage_is_seen_first(browser: Browser) -> None:
    """The headline is a warning, and what was not read is listed with its reason."""
    with WebServer("127.0.0.1:0", _site(partial_coverage())) as web:
        document = browser.elements(web.url)
        assert_painted(browser.picture(web.url, "page-partial-coverage"))
    assert 'class="banner warning" id="headline"' in document
    assert "1 partition is unread (" in _text(document)
    assert "connection refused" in _text(document)


def test_stale_is_no_colour_of_health(browser: Browser) -> None:
    """Without rows the page is grey and says of when the last snapshot is."""
    with WebServer("127.0.0.1:0", _site(stale())) as web:
        document = browser.elements(web.url)
        assert_painted(browser.picture(web.url, "page-stale"))
    assert 'class="banner unknown" id="headline"' in document
    assert "FAILED" in _text(document)


def _text(document: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", document)))
