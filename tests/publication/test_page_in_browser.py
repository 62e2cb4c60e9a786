"""The status page in a real browser: headless Chromium asks the real web server; the pictures are kept to be looked at.

Pictures are written to `build/artefacts/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from typing import Any

from exporter.evaluation.verdicts import Verdict, WaitingGroup
from exporter.incidents.incident import NO_INCIDENTS, EventKind, IncidentEvent, by_time
from exporter.publication.exposition import Renderer
from exporter.publication.page.incidents import IncidentPages
from exporter.publication.page.page import NONE_NAMED, OTHERS_NAMED, Page, render_page
from exporter.publication.paths import INCIDENTS, path_of
from exporter.publication.publication import Publication
from exporter.snapshot import StatePartitionProof
from exporter.web.routes import Routes
from exporter.web.server import WebServer
from tests.browser import BOTH_WAYS, DESKTOP, NOT_CUT, PHONE, Browser, assert_painted
from tests.evaluation.builders import proof
from tests.incidents.cycles import Cycles, blocked, hang
from tests.publication.builders import Partition, broker, evaluation, hanging, inconclusive, published, render_pages
from tests.publication.scenarios import groups_behind_live_transactions, healthy, partial_coverage, stale, three_hangs

LONG_TOPIC = "x" * 249


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


def _site(publication: Publication) -> Routes:
    routes = Routes(lambda: None)
    routes.publish(Renderer().render(publication), {"/": render_page(publication)}, is_ready=True)
    return routes


def test_the_search_shows_only_what_names_the_text(browser: Browser) -> None:
    """By topic, group or id; a reload keeps it, no request contains it, and a name that is not there gets an answer."""
    with WebServer("127.0.0.1:0", _site(three_hangs())) as web:

        def searched(text: str) -> str:
            browser.elements("about:blank")  # another fragment alone loads nothing
            return browser.elements(f"{web.url}/#search={text}")

        everything, one, nothing, broken = map(searched, ("", "STOCK-7", "nobody", "%"))
        whole, part = map(searched, ("4001", "400"))

    def shown(document: str) -> list[str]:
        return [card for card in re.findall(r'<article class="suspect"[^>]*>', document) if "hidden" not in card]

    assert (len(shown(everything)), len(shown(one)), len(shown(nothing))) == (3, 1, 0)
    assert 'id="search">' in everything
    assert ">1 of 3</output>" in one
    assert f">{NONE_NAMED}</output>" in nothing
    assert "<output" in broken
    assert (len(shown(whole)), len(shown(part))) == (1, 0), "a number is searched for as a whole"


def test_the_search_finds_a_group_that_is_not_shown(browser: Browser) -> None:
    """The page names five groups of a suspect; who belongs to the sixth searches, too."""
    groups = tuple(WaitingGroup(group=f"team-{number}", committed_offset=1, waiting_records=9) for number in range(9))
    rows = [hanging("orders", groups=groups), hanging("stock", producer_id=7)]
    publication = published(evaluation([Partition(topic="orders"), Partition(topic="stock")], rows))
    with WebServer("127.0.0.1:0", _site(publication)) as web:
        document = browser.elements(f"{web.url}/#search=team-8")

    assert "team-8 (" not in document
    assert ">1 of 2</output>" in document


def test_the_search_finds_what_blocks_nobody(browser: Browser) -> None:
    """A healthy transaction is in the table of the others, and the search shows its row alone."""
    publication = groups_behind_live_transactions()
    evaluated = publication.evaluation
    assert evaluated is not None
    quiet = replace(evaluated.longest_others[0], transactional_id="quiet-1", topic="audit")
    with_quiet = replace(evaluated, longest_others=(quiet, *evaluated.longest_others))
    with WebServer("127.0.0.1:0", _site(replace(publication, evaluation=with_quiet))) as web:
        document = browser.elements(f"{web.url}/#search=QUIET-1")

    others = document.partition('id="others"')[2].partition("</section>")[0]
    assert f">{OTHERS_NAMED}</output>" in document
    assert [row for row in re.findall(r"<tr[^>]*>(?=<td)", others) if "hidden" not in row] == ["<tr>"]


def test_the_link_of_a_waiting_group_searches_for_it_on_the_status_page(browser: Browser) -> None:
    """A live transaction has no incident: the exporter redirects, and the browser keeps the fragment of the alert."""
    publication = groups_behind_live_transactions()
    pages = IncidentPages().render(NO_INCIDENTS, lambda incident: incident, 30_000)
    routes = Routes(lambda: None)
    routes.publish(Renderer().render(publication), {**pages, "/": render_page(publication)}, is_ready=True)
    with WebServer("127.0.0.1:0", routes) as web:
        document = browser.elements(f"{web.url}/incidents?topic=orders&partition=0#search=order-emails")

    assert ">1 of 2</output>" in document


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
        pictures = browser.pictures(web.url, "page-three-suspects")
    assert document.count('<article class="suspect">') == 3
    assert 'we"ird\\topic-0' in unescape(document)
    assert "2 transactions hang" in _text(document)
    for picture in pictures.values():
        assert_painted(picture)
    assert pictures[""] != pictures["-dark"]


def test_two_hundred_suspects_can_be_read(browser: Browser) -> None:
    """All are there, and the longest topic name that Kafka allows does not widen the page."""
    with WebServer("127.0.0.1:0", _site(two_hundred_suspects())) as web:
        document = browser.elements(web.url)
        for picture in browser.pictures(web.url, "page-200-suspects", BOTH_WAYS).values():
            assert_painted(picture)
    assert document.count('<article class="suspect">') == 200
    assert f"{LONG_TOPIC}-0" in document


def test_the_script_runs_under_the_policy_of_the_server(browser: Browser) -> None:
    """Every command has its button, which only the script makes: the server allows it, and no other."""
    with WebServer("127.0.0.1:0", _site(three_hangs())) as web:
        assert browser.elements(web.url).count("<button>copy</button>") == 8


LONG = "kafka-1.payments.example:9092,kafka-2.payments.example:9092,kafka-3.payments.example:9092"


def cut_on(browser: Browser, pages: Mapping[str, str]) -> dict[tuple[str, tuple[int, int]], Any]:
    """(page, screen) -> what is wider than its place, on a phone and on a desk."""
    places = [(name, screen) for name in pages for screen in (PHONE, DESKTOP)]
    found = {(name, screen): browser.measured(pages[name], NOT_CUT, screen) for name, screen in places}
    return {place: result for place, result in found.items() if result != [0]}


def test_nothing_is_wider_than_its_place(browser: Browser) -> None:
    """Nothing needs scrolling sideways, and no word is cut; long names and failures of a fleet's clusters included.

    Nor in the list of incidents, and in an incident with the longest topic name and an operator's steps.
    """
    publications = (three_hangs, two_hundred_suspects, partial_coverage, healthy)
    pages = {of.__name__: _html(replace(of(), bootstrap=LONG)) for of in publications}
    pages |= {path: page.with_alarm(None).decode() for path, page in _incidents().items()}
    pages["a fleet"] = _fleet()["/"].with_alarm(None).decode()

    assert cut_on(browser, pages) == {}


def test_the_first_suspect_is_on_the_first_screen_of_a_phone(browser: Browser) -> None:
    """Its age, the groups that wait and the whole next command, although coverage is incomplete in many ways."""
    gaps = tuple(broker(number, f"broker {number} did not respond to DescribeProducers") for number in range(2, 9))
    publication = three_hangs()
    assert publication.evaluation is not None
    incomplete = replace(publication.evaluation, snapshot=replace(publication.evaluation.snapshot, brokers=gaps))
    page = _html(replace(publication, bootstrap=LONG, evaluation=incomplete))
    bottom = browser.measured(page, "return document.querySelector('.command').getBoundingClientRect().bottom", PHONE)
    assert 0 < bottom <= PHONE[1]


def test_the_button_selects_the_whole_command(browser: Browser) -> None:
    """A browser that refuses the clipboard still leaves the command selected: one key copies it."""
    click = """
    const button = document.querySelector("article button");
    button.click();
    return [getSelection().toString(), button.textContent];
    """
    selected, words = browser.measured(_html(replace(three_hangs(), bootstrap="kafka-1:9092")), click, PHONE)
    assert selected == (
        "kafka-transaction-exporter abort --bootstrap-server kafka-1:9092 --topic 'we\"ird\\topic' --partition 0 "
        "--start-offset 1234 --dry-run"
    )
    assert words in ("copied", "selected")


def _html(publication: Publication) -> str:
    return render_page(publication).with_alarm(None).decode()


def test_a_fleet_can_be_read_in_both_colour_schemes(browser: Browser) -> None:
    """Its pages have the style of a single cluster's page."""
    routes = Routes(lambda: None)
    routes.publish(Renderer().render(healthy()), _fleet(), is_ready=True)
    with WebServer("127.0.0.1:0", routes) as web:
        for picture in browser.pictures(web.url, "page-fleet", BOTH_WAYS).values():
            assert_painted(picture)


def test_incidents_can_be_read_in_both_colour_schemes(browser: Browser) -> None:
    routes, pages = Routes(lambda: None), _incidents()
    routes.publish(Renderer().render(healthy()), pages, is_ready=True)
    with WebServer("127.0.0.1:0", routes) as web:
        for path, name in zip(pages, ("list", "open", "over"), strict=True):
            for picture in browser.pictures(web.url + path, f"incidents-{name}", BOTH_WAYS).values():
                assert_painted(picture)


def _incidents() -> Mapping[str, Page]:
    """The list, one that is open and one that is over."""
    cycles = Cycles()
    cycles.cycle(0, [hang()], impact=blocked("orders-ledger"))
    cycles.cycle(60, [hang(high_watermark=4_000)], impact=blocked("orders-ledger"))
    cycles.cycle(600)
    unknown = proof(state_partitions=(StatePartitionProof(partition=0, leader=1, failure="loading"),))
    cycles.cycle(4_000, [hang(1, producer_id=8), hang(2, producer_id=8)], proof=unknown)
    incidents = cycles.cycle(4_060, [hang(1, producer_id=8), hang(2, producer_id=8)], impact=blocked("billing", 1))
    over, open_ = incidents.all
    long = replace(open_.suspects[0], key=open_.suspects[0].key._replace(topic=LONG_TOPIC), groups=("g" * 200,))
    open_ = replace(open_, suspects=(long, *open_.suspects[1:]))
    step = IncidentEvent(
        open_.started_ms + 70_000, EventKind.OPERATOR, f"{LONG_TOPIC}-1: anna@desk planned an abort of the transaction"
    )
    with_step = replace(open_, events=by_time((*open_.events, step)))
    pages = IncidentPages().render(
        replace(incidents, all=(over, open_)), lambda each: with_step if each is open_ else each, 30_000, bootstrap=LONG
    )
    return {path: pages[path] for path in (INCIDENTS, path_of(open_.id), path_of(over.id))}


def _fleet() -> dict[str, Page]:
    names = {"payments": three_hangs, "x" * 100: stale, "orders": partial_coverage, "stock": healthy, "mail": healthy}
    return render_pages([replace(publication(), cluster=name) for name, publication in names.items()])


def test_partial_coverage_is_seen_first(browser: Browser) -> None:
    """The headline is a warning, and what was not read is listed with its reason."""
    with WebServer("127.0.0.1:0", _site(partial_coverage())) as web:
        document = browser.elements(web.url)
        assert_painted(browser.picture(web.url, "page-partial-coverage"))
    assert 'class="banner warning" id="headline"' in document
    assert "1 partition is unread (" in _text(document)
    assert "connection refused" in _text(document)


def test_a_stale_page_is_not_green(browser: Browser) -> None:
    """Without rows the page is grey and says of when the last snapshot is."""
    with WebServer("127.0.0.1:0", _site(stale())) as web:
        document = browser.elements(web.url)
        assert_painted(browser.picture(web.url, "page-stale"))
    assert 'class="banner unknown" id="headline"' in document
    assert "FAILED" in _text(document)


def _text(document: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", document)))
