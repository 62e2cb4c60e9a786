"""The pages of incidents: what they say, that names from brokers cannot break them, and that they are made once."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import replace

import pytest

from exporter.incidents.follow import unexplained, with_causes
from exporter.incidents.incident import NO_INCIDENTS, EventKind, Incident, IncidentEvent, Incidents, by_time
from exporter.incidents.operator_steps import steps_of, with_steps
from exporter.publication.page.incidents import IncidentPages
from exporter.publication.page.page import Page
from exporter.publication.page.post_mortem import in_one_sentence, post_mortem
from exporter.publication.paths import below, path_of
from exporter.snapshot import MarkerFinding
from tests.evaluation.builders import NOW_MS, proof, transaction
from tests.evaluation.stuck import marker
from tests.incidents.cycles import Cycles, StuckProducer, blocked, hang

INTERVAL_MS = 30_000
EVIL = '<script>alert("1")</script>'


def ended() -> Incidents:
    cycles = Cycles()
    cycles.cycle(0, [hang()], impact=blocked("readers"))
    return cycles.cycle(120)


def shown(page: Page) -> str:
    return page.with_alarm(None).decode()


def nobody(incident: Incident) -> Incident:
    return incident


def somebody(incident: Incident) -> Incident:
    step = IncidentEvent(NOW_MS + 60_000, EventKind.OPERATOR, "orders-0: a@b planned an abort of the transaction")
    return replace(incident, events=by_time((*incident.events, step)))


def test_without_incidents_the_list_says_so() -> None:
    pages = IncidentPages().render(NO_INCIDENTS, nobody, INTERVAL_MS)
    assert list(pages) == ["/incidents", "/incidents?"]
    assert "No suspect transaction has been seen yet." in shown(pages["/incidents"])


def test_an_incident_has_a_page_that_the_list_links_to() -> None:
    incidents = ended()
    (incident,) = incidents.all
    pages = IncidentPages().render(incidents, nobody, INTERVAL_MS)
    assert f'href="{path_of(incident.id)}"' in shown(pages["/incidents"])
    page = shown(pages[path_of(incident.id)])
    sentence = "1 suspect transaction on 1 partition for 2 min 0 s, 1 group blocked, up to 50 offsets held back"
    assert in_one_sentence(incident) == sentence
    assert f"Over: {sentence}" in page
    for words in (incident.suspects[0].reason, "readers", "is no longer open", "2027-01-15 08:02:00 UTC"):
        assert words in page


def test_operators_steps_are_in_the_time_line() -> None:
    pages = IncidentPages().render(incidents := ended(), somebody, INTERVAL_MS)
    page = shown(pages[path_of(incidents.all[0].id)])
    assert page.index("is hanging") < page.index("planned an abort") < page.index("is no longer open")


def test_a_producer_that_cannot_start_has_a_page_without_offsets() -> None:
    """While it lasts it has the next command and the lines of its runbook; afterwards the evidence stays."""
    stuck = StuckProducer()
    (incident,) = stuck.cycle(marker(MarkerFinding.CONTRADICTED)).all
    path = path_of(incident.id)
    made = IncidentPages().render(stuck.incidents, nobody, INTERVAL_MS, bootstrap="b:1")
    page, text = shown(made[path]), shown(made[f"{path}.md"])
    over = shown(IncidentPages().render(stuck.cycle(later_ms=60_000, is_over=True), nobody, INTERVAL_MS)[path])

    assert "Open: 1 producer cannot start, and a log contradicts its coordinator" in page
    assert '<div class="banner bad" id="headline"' in page
    assert "why --bootstrap-server b:1 --producer-id 7" in page
    assert "KafkaTransactionOutcomeContradicted" in page
    assert "has an ABORT marker: its records are dropped" in page
    assert "start offset" not in page
    assert r"| \_\_transaction_state-3 | - | 7 / 3 | app-1 | stuck_completing | open |" in text
    assert "- the application of app-1" in text
    assert "explain --incident" not in text
    assert "Over: 1 producer could not start, for at least 3 min 0 s, and a log contradicts its coordinator" in over
    assert "why --bootstrap-server" not in over
    assert "has an ABORT marker: its records are dropped" in over


def test_names_from_brokers_are_escaped() -> None:
    incidents = ended()
    (incident,) = incidents.all
    suspect = replace(
        incident.suspects[0],
        key=incident.suspects[0].key._replace(topic=EVIL),
        transactional_id=EVIL,
        reason=EVIL,
        groups=(EVIL,),
    )
    events = (IncidentEvent(NOW_MS, EventKind.VERDICT, EVIL),)
    evil = replace(incidents, all=(replace(incident, suspects=(suspect,), events=events),))
    own = {"text/html; charset=utf-8": 1, "text/markdown; charset=utf-8": 0}
    for page in IncidentPages().render(evil, nobody, INTERVAL_MS).values():
        # JSON escapes nothing of HTML, and no browser takes it for that.
        if page.content_type in own and not page.moved_to:
            assert shown(page).count("<script>") == own[page.content_type]


def test_a_page_is_made_again_only_when_its_incident_has_changed() -> None:
    pages, incidents = IncidentPages(), ended()
    path = path_of(incidents.all[0].id)
    first = pages.render(incidents, nobody, INTERVAL_MS)[path]
    assert pages.render(ended(), nobody, INTERVAL_MS)[path] is first
    with_step = pages.render(incidents, somebody, INTERVAL_MS)[path]
    assert with_step is not first
    assert pages.render(incidents, somebody, INTERVAL_MS)[path] is with_step


def test_a_hang_that_ended_before_its_turn_has_no_cause_and_says_so() -> None:
    """One is explained in each cycle, and a plan file ends all: who reads the causes believes that these are all."""
    incidents = ended()
    path = path_of(incidents.all[0].id)
    pages = IncidentPages().render(incidents, nobody, INTERVAL_MS)
    causes = {suspect.key: ("unknown", "no trace") for suspect in incidents.all[0].suspects}
    explained = IncidentPages().render(with_causes(incidents, causes, NOW_MS), nobody, INTERVAL_MS)

    for name in (path, f"{path}.md"):
        assert "logs were not searched for its cause" in shown(pages[name])
        assert "were not searched" not in shown(explained[name])


def test_a_hang_without_a_group_says_since_when_one_would_be_seen() -> None:
    """An abort seconds after the page ends a hang before the cycle that sees who waits: the plan had named a group."""
    (incident,) = ended().all
    (known,) = incident.suspects
    suspect = replace(known, groups=())
    alone = post_mortem(replace(incident, suspects=(suspect,)), None, None)
    beside = post_mortem(replace(incident, suspects=(suspect, replace(known, groups=("readers",)))), None, None)

    seen = "groups are seen from the second cycle of a transaction on."
    assert f"## Who waited\n\nNo blocked group was seen: {seen}\n" in alone
    assert f"## Who waited\n\n- readers\n\nNone on orders-0: {seen}\n" in beside


def test_transactional_ids_can_be_kept_from_readers() -> None:
    """Also those in sentences of evidence and of the time line."""
    cycles = Cycles()
    known = transaction("Empty", start_ms=None, partitions=frozenset())
    incidents = cycles.cycle(0, [hang()], transactions=(known,), proof=proof(transactions=(known,)))
    shown_pages = IncidentPages().render(incidents, nobody, INTERVAL_MS)
    kept_back = IncidentPages().render(incidents, nobody, INTERVAL_MS, transactional_ids=False)
    path = path_of(incidents.all[0].id)
    assert shown(shown_pages[path]).count("app-1") >= 3
    assert all("app-1" not in shown(page) for page in kept_back.values())
    assert "<dt>transactional id</dt><dd>not shown here</dd>" in shown(kept_back[path]), "it is known"
    assert "| not shown here |" in shown(kept_back[f"{path}.md"])


@pytest.mark.parametrize("name", ["app-42", "it's app-42", 'a "quoted" app-42', "both ' and \" app-42"])
def test_an_id_that_only_the_search_for_a_cause_has_found_is_kept_from_readers(name: str) -> None:
    """No coordinator lists the producer id of this suspect, so it has no id of its own."""
    proved = Cycles().cycle(0, [hang()])
    (suspect,) = unexplained(proved)
    because = f"the coordinator removed transactional id {name!r} 2 hours before the record was written"
    explained = with_causes(proved, {suspect.key: ("written_after_expiry", because)}, NOW_MS + 1_000)
    pages = [
        IncidentPages().render(explained, nobody, INTERVAL_MS, transactional_ids=are_shown)[
            path_of(explained.all[0].id)
        ]
        for are_shown in (True, False)
    ]

    assert [shown(page).count("app-42") for page in pages] == [2, 0]
    assert "removed transactional id (hidden) 2 hours before" in shown(pages[1])


@pytest.mark.parametrize("name", [None, "payments-7"])
def test_an_id_in_the_words_of_a_command_is_kept_from_readers(name: str | None) -> None:
    """The audit log quotes brokers; the operator may DESCRIBE ids that the exporter may not."""
    proved = Cycles().cycle(0, [hang()])
    (incident,) = proved.all
    named = replace(incident, suspects=(replace(incident.suspects[0], transactional_id=name),))
    step = {
        "at": "2027-01-15T08:00:09+00:00",
        "who": "alice@host",
        "step": "ended",
        "topic": "orders",
        "partition": 0,
        "start_offset": 100,
        "sentence": "nothing was written: broker 1 responded for 'payments-7', payments-7 moved",
    }

    def commanded(incident: Incident) -> Incident:
        return with_steps(incident, steps_of([json.dumps(step)]))

    incidents = replace(proved, all=(named,))
    for are_shown in (True, False):
        pages = IncidentPages().render(incidents, commanded, INTERVAL_MS, transactional_ids=are_shown)
        below = [shown(page) for path, page in pages.items() if path.startswith(path_of(incident.id))]
        assert len(below) == 3
        assert ["payments-7" in page for page in below] == [are_shown] * 3
        assert all("the command of alice@host for orders-0 ended: " in page for page in below)


def test_an_open_incident_has_the_next_command_and_one_that_is_over_has_none() -> None:
    cycles = Cycles()
    open_ = cycles.cycle(0, [hang()])
    path = path_of(open_.all[0].id)
    command = "abort <span>--bootstrap-server</span> kafka:9092 <span>--topic</span> orders"
    page = shown(IncidentPages().render(open_, nobody, INTERVAL_MS, bootstrap="kafka:9092")[path])
    assert command in page
    assert "export BOOTSTRAP=kafka:9092 TOPIC=orders PARTITION=" in page
    pages = IncidentPages().render(open_, nobody, INTERVAL_MS, runbooks="https://wiki/x")
    assert 'href="https://wiki/x/KafkaTransactionHanging.md"' in bytes(pages[path].head).decode()
    over = cycles.cycle(120)
    assert "--topic" not in shown(IncidentPages().render(over, nobody, INTERVAL_MS, bootstrap="kafka:9092")[path])


def test_the_labels_of_an_alert_lead_to_its_incident() -> None:
    """By the partition only to the newest open one; by the start offset to that of this transaction, open or not."""
    cycles, incidents = Cycles(), NO_INCIDENTS
    for at_s, offsets in ((0, [100]), (3600, [100, 200]), (7200, [100, 200, 300]), (7230, [100, 200])):
        incidents = cycles.cycle(at_s, [hang(start_offset=offset, producer_id=offset) for offset in offsets])
    pages = IncidentPages().render(incidents, nobody, INTERVAL_MS)

    first, second, third = (f"incidents/{one.id}" for one in sorted(incidents.all, key=lambda one: one.started_ms))
    assert pages["/incidents?topic=orders&partition=0"].moved_to == second
    by_offset = {
        offset: pages[f"/incidents?topic=orders&partition=0&start_offset={offset}"] for offset in (100, 200, 300)
    }
    assert [page.moved_to for page in by_offset.values()] == [first, second, third]
    assert f"/{third}" in pages
    over = IncidentPages().render(cycles.cycle(7260), nobody, INTERVAL_MS)
    assert "/incidents?topic=orders&partition=0" not in over
    assert over["/incidents?topic=orders&partition=0&start_offset=300"].moved_to == third


@pytest.mark.parametrize(("cluster", "address"), [(None, "./"), ("a b", "../a%20b")])
def test_a_place_where_nothing_is_open_leads_to_the_status_page(cluster: str | None, address: str) -> None:
    """A live transaction has no incident: an old one of its partition is another event."""
    pages = IncidentPages(cluster).render(ended(), nobody, INTERVAL_MS)

    assert pages["/incidents?"].moved_to == address
    status = urllib.parse.urljoin(f"https://proxy/kafka{below(cluster)}/incidents", address)
    assert status.rstrip("/") == f"https://proxy/kafka{below(cluster)}"


def test_a_clock_that_was_set_back_gives_no_negative_duration() -> None:
    cycles = Cycles()
    cycles.cycle(7200, [hang()])
    incidents = cycles.cycle(0)
    pages = IncidentPages().render(incidents, nobody, INTERVAL_MS)
    page = pages[f"{path_of(incidents.all[0].id)}.md"].with_alarm(None).decode()

    assert "on 1 partition for an unknown time (a clock was set back)" in page
    assert "| an unknown time (a clock was set back) |" in page


def test_an_incident_is_also_there_for_a_post_mortem() -> None:
    """As the command prints it, with operators' steps and the address; without transactional ids where these are hidden."""
    known = transaction("Empty", start_ms=None, partitions=frozenset())
    incidents = Cycles().cycle(0, [hang()], transactions=(known,), proof=proof(transactions=(known,)))
    (incident,) = incidents.all
    path = path_of(incident.id)
    given = {"external_url": "https://ktx.example.org", "transactional_ids": False}
    pages = IncidentPages().render(incidents, somebody, INTERVAL_MS, **given)  # type: ignore[arg-type]
    text, document = pages[f"{path}.md"], pages[f"{path}.json"]

    assert (text.content_type, document.content_type) == ("text/markdown; charset=utf-8", "application/json")
    page = text.with_alarm("No cycle since 08:00.").decode()
    assert page.startswith(f"# Incident {incident.id}\n")
    assert f"<https://ktx.example.org{path}>" in page
    assert "a@b planned an abort of the transaction" in page
    assert f"`kafka-transaction-exporter explain --incident {incident.id} --format markdown`" in page
    of_fleet = (
        IncidentPages("north east").render(incidents, somebody, INTERVAL_MS)[f"{path}.md"].with_alarm(None).decode()
    )
    assert f"explain --incident {incident.id} --cluster 'north east' --format markdown`" in of_fleet
    found = json.loads(document.with_alarm("No cycle since 08:00."))
    assert (found["id"], found["url"]) == (incident.id, f"https://ktx.example.org{path}")
    assert "app-1" not in page + str(found)
    html = pages[path].with_alarm(None).decode()
    assert all(f'href="{incident.id}{form}"' in html for form in (".md", ".json"))
