"""The status page in a real browser: headless Chromium asks the real web server; the pictures are kept to be looked at.

Pictures are written to `build/artefacts/`.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from html import unescape
from pathlib import Path

import pytest

from exporter.evaluation.verdicts import Verdict
from exporter.publication.exposition import Renderer
from exporter.publication.facts import Publication, PublishOptions
from exporter.publication.page import render_page
from exporter.publication.site import Site
from exporter.publication.web import WebServer
from tests.publication.builders import Partition, evaluation, facts, hanging, inconclusive
from tests.publication.scenarios import healthy, partial_coverage, stale, three_hangs

ARTEFACTS = Path(__file__).parents[2] / "build" / "artefacts"
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
    return Publication(evaluation=evaluation(partitions, rows), facts=facts(), options=PublishOptions())


class Browser:
    """A headless Chromium with a profile of its own."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program = program
        self._profile = profile

    def elements(self, url: str) -> str:
        """The document as the browser understood it, serialised."""
        return self._run("--dump-dom", url).decode()

    def picture(self, url: str, name: str, *options: str) -> bytes:
        """A screenshot as PNG, kept as an artefact."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        path.unlink(missing_ok=True)
        self._run(f"--screenshot={path}", "--hide-scrollbars", *(options or ("--window-size=1280,1400",)), url)
        return path.read_bytes()

    def _run(self, *arguments: str) -> bytes:
        quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
        command = [self._program, "--headless", "--no-sandbox", "--disable-gpu", *quiet]
        command += [f"--user-data-dir={self._profile}", *arguments]
        return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: on Debian install the packages chromium and fonts-dejavu-core."
    return Browser(program, tmp_path_factory.mktemp("chromium"))


def _site(publication: Publication) -> Site:
    site = Site(lambda: None)
    site.publish(Renderer().render(publication), render_page(publication), is_ready=True)
    return site


def test_a_healthy_cluster_is_green_and_says_what_was_read(browser: Browser) -> None:
    """The browser finds the green headline and no list of suspects."""
    with WebServer("127.0.0.1:0", _site(healthy())) as web:
        document = browser.elements(web.url)
        _assert_painted(browser.picture(web.url, "page-healthy"))
    assert 'class="banner good" id="headline"' in document
    assert "Nothing suspect in 2 partitions, all read" in _text(document)
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
        _assert_painted(picture)
    assert light != dark


def test_two_hundred_suspects_can_be_read(browser: Browser) -> None:
    """All are there, and the longest topic name that Kafka allows does not widen the page."""
    with WebServer("127.0.0.1:0", _site(two_hundred_suspects())) as web:
        document = browser.elements(web.url)
        _assert_painted(browser.picture(web.url, "page-200-suspects"))
        _assert_painted(browser.picture(web.url, "page-200-suspects-phone", *PHONE))
    assert document.count('<article class="suspect">') == 200
    assert f"{LONG_TOPIC}-0" in document


def test_partial_coverage_is_seen_first(browser: Browser) -> None:
    """The headline is a warning, and what was not read is listed with its reason."""
    with WebServer("127.0.0.1:0", _site(partial_coverage())) as web:
        document = browser.elements(web.url)
        _assert_painted(browser.picture(web.url, "page-partial-coverage"))
    assert 'class="banner warning" id="headline"' in document
    assert "2 of 3 partitions could not be read." in _text(document)
    assert "connection refused" in _text(document)


def test_stale_is_no_colour_of_health(browser: Browser) -> None:
    """Without rows the page is grey and says of when the last snapshot is."""
    with WebServer("127.0.0.1:0", _site(stale())) as web:
        document = browser.elements(web.url)
        _assert_painted(browser.picture(web.url, "page-stale"))
    assert 'class="banner unknown" id="headline"' in document
    assert "FAILED" in _text(document)


def _text(document: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", document)))


def _assert_painted(picture: bytes) -> None:
    """A PNG whose rows differ: of a blank one, no filtered byte but those of its first pixel and row is not zero."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        if picture[at + 4 : at + 8] == b"IDAT":
            data += picture[at + 8 : at + 8 + length]
        at += length + 12
    pixels = zlib.decompress(data)
    assert len(pixels) - pixels.count(0) > len(pixels) // 200
