"""The status page: its statements, as text; `test_page_in_browser` checks how it looks."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.baseline import UsualDuration
from exporter.evaluation.evaluate import by_impact
from exporter.evaluation.humanize import humanize_duration
from exporter.evaluation.verdicts import (
    InconclusiveReason,
    OwnerState,
    StartSource,
    TransactionRow,
    Verdict,
    WaitingGroup,
)
from exporter.publication.exposition import Renderer
from exporter.publication.page.blocking import owner_in_words
from exporter.publication.page.humanize import humanize_instant
from exporter.publication.page.page import render_page
from exporter.publication.page.script import SCRIPT
from exporter.publication.page.style import DARK, LIGHT, style_sheet
from exporter.publication.page.summary import GAPS_SHOWN_MAX, Severity, coverage_gaps, summarize
from exporter.publication.page.timeouts import SHOWN_MAX
from exporter.publication.publication import Publication, PublishOptions
from exporter.snapshot import (
    CoordinatorCoverage,
    CoordinatorProof,
    IdVisibility,
    Impact,
    MarkerFinding,
    MaxTimeout,
    ProofLevel,
    Provable,
    StatePartitionProof,
    StateTopic,
)
from exporter.status import ClusterStatus, ProofStatus
from exporter.transaction_log.events import Outcome
from exporter.transaction_log.report import LogReport
from exporter.transaction_log.timeouts import EndedByCoordinator
from tests.contrast import contrast
from tests.evaluation.stuck import marker, stuck
from tests.publication.builders import (
    TAKEN_AT_MS,
    Partition,
    broker,
    evaluation,
    hanging,
    inconclusive,
    published,
    status,
    transaction,
)
from tests.publication.scenarios import (
    SCENARIOS,
    before_first_cycle,
    bytes_behind_transactions,
    groups_behind_live_transactions,
    healthy,
    partial_coverage,
    render,
    stale,
    three_hangs,
)

BLOCKED = WaitingGroup(group="emails", committed_offset=9, waiting_records=40, blocked_since_ms=TAKEN_AT_MS)
BEHIND = WaitingGroup(group="reports", committed_offset=1, waiting_records=48)
THREE = [Partition(partition=number) for number in range(3)]
FAILED = status(last_cycle_succeeded=False, last_failure="No broker could be reached.")
UNREAD = [Partition(partition=0), Partition(partition=1, unread="no_leader")]


def _page(publication: Publication) -> str:
    return render_page(publication).with_alarm(None).decode()


def _text(publication: Publication) -> str:
    """The text that a reader sees."""
    page = re.sub(r"<wbr>|</?span>", "", _page(publication))
    return re.sub(r"\s+", " ", re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL))


# The headline


@pytest.mark.parametrize("level", ProofLevel, ids=lambda level: level.value)
def test_the_headline_says_the_level_of_proof_between_two_sentences(level: ProofLevel) -> None:
    """In the words of `doctor`; where nothing is read there is no level."""
    proof = ProofStatus(Provable.SOME, level, "Hangs can be proved on 1 topic.", TAKEN_AT_MS)
    notes = summarize(evaluation(), status(proof=proof)).notes

    said = f"{level.in_words} " if level is not ProofLevel.NONE else ""
    assert any(note.startswith(f"Hangs can be proved on 1 topic. {said}Rights and coordinators were") for note in notes)


def test_a_check_that_a_hang_contradicts_is_not_shown() -> None:
    """Nothing could be proved before the first transaction of a cluster; the next check comes minutes later."""
    proof = ProofStatus(Provable.NONE, ProofLevel.WATCH_ONLY, "No hang can be proved: no topic.", TAKEN_AT_MS)
    seen = evaluation([Partition()], [hanging()])

    assert any("No hang can be proved" in note for note in summarize(evaluation(), status(proof=proof)).notes)
    assert not any("No hang can be proved" in note for note in summarize(seen, status(proof=proof)).notes)


def test_green_needs_everything_read_and_nothing_suspect() -> None:
    """An ordinary open transaction in a wholly read cluster is green, and it says how much was read."""
    summary = summarize(evaluation([Partition()], [transaction()]), status())
    assert (summary.level, summary.title, summary.notes) == (
        Severity.GOOD,
        "No suspect in 1 partition, all read",
        ("A suspect is an open transaction that needs attention.",),
    )


def test_a_hang_goes_before_all_else() -> None:
    """A proof is the title, whatever else is wrong, and the rest stays readable below it."""
    summary = summarize(evaluation(UNREAD, [inconclusive(), hanging()]), FAILED)
    assert summary.level is Severity.BAD
    assert summary.title == "read_committed consumers of orders-0 stop: 1 transaction hangs"
    assert summary.notes == (
        "Proved: no coordinator will write its marker.",
        "1 more suspect transaction.",
        "1 partition is unread (no_leader), the first is orders-1.",
        "1 transaction late: older than transaction.max.timeout.ms (plus padding).",
        "The last cycle failed: No broker could be reached.",
    )


def test_several_hangs_have_one_plan() -> None:
    """The commands of the plan file stand above the suspects; a hang that is alone has its own command only."""
    two = [hanging(), hanging(producer_id=4001, start_offset=9)]
    publication = replace(three_hangs(), evaluation=evaluation([Partition()], two), bootstrap="kafka-1:9092")
    server, file = "--bootstrap-server kafka-1:9092", "--plan-file hanging.json"
    text = _text(publication)
    assert "2 hang: all in one plan (dry run)" in text
    assert f"kafka-transaction-exporter find-hanging {server} {file}" in text
    assert f"kafka-transaction-exporter abort {server} {file} --dry-run" in text
    one = replace(publication, evaluation=evaluation([Partition()], two[:1]))
    assert "--plan-file" not in _text(one)


def test_a_suspect_is_a_warning() -> None:
    """An unproved suspect is not red, and never green."""
    summary = summarize(evaluation([Partition()], [inconclusive()]), status())
    assert (summary.level, summary.title) == (Severity.WARNING, "1 suspect transaction")


def test_incomplete_coverage_is_never_green() -> None:
    """No suspect in a half unread cluster does not mean health."""
    summary = summarize(evaluation(UNREAD), status())
    assert (summary.level, summary.title) == (Severity.WARNING, "No suspect in the read part, but a part is unread")


def test_a_failed_cycle_is_never_green() -> None:
    """The snapshot shown was fine, but the present state is unknown."""
    summary = summarize(evaluation(), FAILED)
    assert (summary.level, summary.notes) == (Severity.WARNING, ("The last cycle failed: No broker could be reached.",))


def test_a_missed_cycle_is_never_green() -> None:
    """A cycle that hangs neither fails nor ends."""
    summary = summarize(evaluation(), status(missed_in_a_row=2))
    assert summary.level is Severity.WARNING
    assert summary.notes == ("2 cycles are missed: the previous one still runs.",)


def test_without_rows_nothing_is_known() -> None:
    """Stale and never read have their own headlines, and neither is green."""
    stale_one, first = stale(), before_first_cycle()
    summary = summarize(None, stale_one.status)
    assert (summary.level, summary.title) == (
        Severity.UNKNOWN,
        "Stale: the last snapshot is of 2027-01-15 08:00:00 UTC and not shown any more",
    )
    summary = summarize(None, first.status)
    assert (summary.level, summary.title, summary.notes) == (
        Severity.UNKNOWN,
        "Nothing has been read yet",
        ("The first cycle is still running.",),
    )


@pytest.mark.parametrize(
    ("gap", "sentence"),
    [
        (evaluation(UNREAD), "1 partition is unread (no_leader), the first is orders-1."),
        (evaluation(brokers=(broker(1), broker(2, "broker 2 timed out"))), "Broker 2 timed out."),
        (evaluation(coordinators=(CoordinatorCoverage(broker=1, failure="broker 1 refused"),)), "Broker 1 refused."),
        (evaluation(coordinators=(CoordinatorCoverage(broker=1, failure="orders-1 moved"),)), "orders-1 moved."),
        (evaluation(coordinators=(CoordinatorCoverage(broker=1, failure="scan.x is 1."),)), "scan.x is 1."),
    ],
)
def test_every_kind_of_gap_is_named(gap: object, sentence: str) -> None:
    """Each part of an incomplete coverage has its own sentence, in which names are spelled as they are."""
    assert coverage_gaps(gap) == (sentence,)  # type: ignore[arg-type]  # the table's evaluations


def test_gaps_beyond_a_number_are_counted() -> None:
    """A cluster of many brokers that are down leaves the page readable."""
    brokers = tuple(broker(number, f"broker {number} is down") for number in range(GAPS_SHOWN_MAX + 3))
    *shown, last = coverage_gaps(evaluation(brokers=brokers))
    assert (len(shown), last) == (GAPS_SHOWN_MAX, "3 more gaps, see Unread.")


@pytest.mark.parametrize("is_lasting", [True, False])
def test_groups_that_are_not_known_are_unread_and_a_gap_unless_a_right_is_missing(*, is_lasting: bool) -> None:
    """`Unread: nothing` stood above groups of which nobody knew anything."""
    why = "share groups are not examined: broker 1 timed out"
    unread = () if is_lasting else (why,)
    found = Impact(offsets=(), residents=(), failures=(why,), unread=unread)
    evaluated = evaluation()
    evaluated = replace(evaluated, snapshot=replace(evaluated.snapshot, impact=found))

    assert f"consumer groups {why}" in _text(published(evaluated))
    assert coverage_gaps(evaluated) == tuple(f"Not every group that stands still is known: {each}." for each in unread)
    assert evaluated.snapshot.is_complete is is_lasting


def test_a_failed_proof_is_a_gap() -> None:
    """When coordinators prove nothing, no hang can be found: that limits every absence."""
    proof = CoordinatorProof(
        state_topic=StateTopic.PRESENT,
        state_partitions=(StatePartitionProof(partition=7, leader=3, failure="loading"),),
        listing_failures=((4, "timed out"),),
        transactions=(),
        unclear_producer_ids=frozenset(),
        hidden_topics=frozenset(),
        id_visibility=IdVisibility.ALL,
    )
    evaluated = evaluation()
    evaluated = replace(evaluated, snapshot=replace(evaluated.snapshot, proof=proof))
    (gap,) = coverage_gaps(evaluated)
    assert gap.endswith("cannot be proved to hang: partitions of __transaction_state are still loading.")
    text = _text(published(evaluated))
    assert "__transaction_state-7 at broker 3 loading" in text
    assert "list of transactions of broker 4 timed out" in text


@given(st.sampled_from(list(SCENARIOS)), st.booleans(), st.sampled_from([True, False, None]))
def test_green_is_a_statement_of_completeness(name: str, drop: bool, succeeded: bool | None) -> None:  # noqa: FBT001  # drawn
    """Green implies: rows exist, all was read, no transaction is suspect, and the last cycle succeeded."""
    publication = SCENARIOS[name]()
    evaluated = None if drop else publication.evaluation
    if summarize(evaluated, status(last_cycle_succeeded=succeeded)).level is Severity.GOOD:
        assert evaluated is not None
        assert evaluated.snapshot.is_complete
        assert not evaluated.suspects
        assert not any(row.owner is OwnerState.SILENT for row in evaluated.blocking)
        assert succeeded


# The page


def test_the_owner_of_a_live_transaction_is_described_by_what_is_known_of_its_id() -> None:
    silent = next(row for row in groups_behind_live_transactions().blocking if row.owner is OwnerState.SILENT)

    assert owner_in_words(replace(silent, usual_silence_ms=0, takes_new_ids=True), 30_000) == (
        "no write seen for 1 min 42 s (usual for its id or prefix: 30 s at most): it has stopped, is paused, or "
        "computes; ids of its prefix that came before were not used since, so a restart with a new one ends nothing"
    )
    assert owner_in_words(
        replace(silent, usual_silence_ms=90_000, owner=OwnerState.WRITING, takes_new_ids=True), 30_000
    ) == ("no write seen for 1 min 42 s (usual for its id or prefix: 2 min 0 s at most)")


def test_who_waits_behind_a_live_transaction_is_named_with_its_owner_and_its_end() -> None:
    """Two groups stand still, and no verdict is bad: the page is not green, and no word of it says that this is a hang."""
    publication = groups_behind_live_transactions()
    text = _text(publication)
    parts = (
        "2 consumer groups are blocked behind 2 live transactions, an owner is silent",
        "At the latest until 2027-01-15 08:13:10 UTC; of 1 no end is known.",
        "Behind 2 live transactions (their owners or coordinators will end them; until then",
        "orders-0 owner silent",
        "consumer groups order-emails (seen blocked for 1 min 0 s, lag 42 offsets)",
        "ends within 13 min 10 s, by 2027-01-15 08:13:10 UTC, its coordinator aborts it, unless its owner ends it before",
        "owner no write seen for 1 min 42 s: it has stopped, is paused, or computes",
        "(start from its coordinator)",
        "next (evidence) runbook kafka-transaction-exporter find-hanging --all",
        "next (if its application does not come back: dry run) kafka-transaction-exporter force-terminate",
        "orders-1 open_within_timeout",
        "ends when its owner ends it: no time-out is known",
        "owner no write seen for 2 s",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert summarize(publication.evaluation, status()).level is Severity.WARNING
    assert "/runbooks/KafkaTransactionOwnerSilent.md" in _page(publication)
    assert text.count("force-terminate") == 1, "the other one's owner writes"
    assert "hanging" not in text.split("Partitions")[0].replace("find-hanging", "")


def stuck_producers(*findings: MarkerFinding) -> Publication:
    publication = healthy()
    assert publication.evaluation is not None
    return replace(
        publication,
        evaluation=replace(publication.evaluation, stuck=tuple(stuck(marker(finding)) for finding in findings)),
    )


@pytest.mark.parametrize(
    ("finding", "level", "title", "runbook"),
    [
        (
            MarkerFinding.CONTRADICTED,
            Severity.BAD,
            "1 producer cannot start, and a log contradicts its coordinator",
            "KafkaTransactionOutcomeContradicted",
        ),
        (MarkerFinding.AS_DECIDED, Severity.WARNING, "1 producer cannot start", "KafkaTransactionProducerCannotStart"),
    ],
)
def test_a_producer_that_cannot_start_is_the_headline(
    finding: MarkerFinding, level: Severity, title: str, runbook: str
) -> None:
    """Although nothing is open; with the command that explains it, and its runbook."""
    publication = stuck_producers(finding)
    text = _text(publication)

    assert summarize(publication.evaluation, status()).level is level
    assert text.index(title) < text.index("why --bootstrap-server")
    assert f"/runbooks/{runbook}.md" in _page(publication)
    assert re.search(
        r"paste first, before its login line: export (?:BOOTSTRAP=\S+ )?PRODUCER_ID=\d+ TRANSACTIONAL_ID=\S+", text
    )


def test_a_proved_hang_comes_before_a_producer_that_cannot_start() -> None:
    hangs = three_hangs()
    assert hangs.evaluation is not None
    both = replace(hangs.evaluation, stuck=(stuck(marker(MarkerFinding.CONTRADICTED)),))

    summary = summarize(both, status())
    assert summary.title == summarize(hangs.evaluation, status()).title
    assert "1 producer cannot start, and a log contradicts its coordinator." in summary.notes


def test_the_id_of_a_producer_that_cannot_start_is_hidden_with_all_others() -> None:
    shown = stuck_producers(MarkerFinding.MISSING)

    assert "app-1" in _page(shown)
    assert "app-1" not in _page(replace(shown, options=PublishOptions(transactional_ids=False)))


def test_a_group_behind_an_owner_that_writes_is_named_in_a_headline_that_is_not_green() -> None:
    """It waits, and nothing is wrong: neither a warning, nor a page without a word."""
    evaluated = groups_behind_live_transactions().evaluation
    assert evaluated is not None
    writing = replace(evaluated, blocking=evaluated.blocking[1:])

    summary = summarize(writing, status())

    assert summary.level is Severity.WAITING
    assert summary.title == (
        "Consumer group invoices is blocked behind 1 live transaction: no suspect in 2 partitions, all read"
    )
    assert "No time-out is known." in summary.notes
    assert not any("invoices" in note for note in summary.notes), "the title names it"


@pytest.mark.parametrize(
    ("silent", "count", "behind"),
    [
        (1, 1, "a live transaction whose owner is silent"),
        (1, 3, "3 live transactions, an owner is silent"),
        (2, 2, "2 live transactions whose owners are silent"),
        (2, 3, "3 live transactions, 2 owners are silent"),
    ],
)
def test_silent_owners_are_counted_in_the_headline(silent: int, count: int, behind: str) -> None:
    """The lines below do not say the headline again; below a hang they name who else waits. A producer is one owner."""
    first, second = groups_behind_live_transactions().blocking
    writing = replace(second, groups=first.groups)
    owners = tuple(replace(first, producer_id=number) for number in range(silent))
    evaluated = replace(evaluation(), blocking=owners + (writing,) * (count - silent))

    summary = summarize(evaluated, status())
    below_a_hang = summarize(replace(evaluation([Partition()], [hanging()]), blocking=(first,)), status())

    one = summarize(replace(evaluation(), blocking=(first, replace(first, partition=9), writing)), status())
    assert one.title.endswith("behind 3 live transactions, an owner is silent")
    assert summary.title == f"Consumer group order-emails is blocked behind {behind}"
    assert not any("order-emails" in note for note in summary.notes)
    assert any(
        note.startswith("Consumer group order-emails is blocked behind 1 live transaction, at the latest until ")
        for note in below_a_hang.notes
    )


def test_one_live_transaction_has_one_owner() -> None:
    publication = groups_behind_live_transactions()
    assert publication.evaluation is not None
    one = replace(publication, evaluation=replace(publication.evaluation, blocking=publication.evaluation.blocking[:1]))

    assert "Behind 1 live transaction (its owner or coordinator will end it; until then" in _text(one)


def test_ids_of_those_that_block_are_hidden_too() -> None:
    publication = replace(groups_behind_live_transactions(), options=PublishOptions(transactional_ids=False))
    assert "billing-" not in _page(publication)
    assert "billing-" not in render(publication).text.body.decode()


def test_the_page_answers_questions_in_the_order_of_an_incident() -> None:
    """State, suspects, what is unread; figures and tables are below."""
    page = _page(three_hangs())
    places = [
        page.index(f'id="{name}"') for name in ("headline", "suspects", "coverage", "facts", "others", "verdicts")
    ]
    assert places == sorted(places)


def test_a_suspect_says_first_what_an_operator_decides_by() -> None:
    """Age, who waits, the next command and the runbook; then the evidence."""
    group = WaitingGroup(group="readers", committed_offset=1, waiting_records=2)
    text = _text(published(evaluation([Partition()], [hanging(groups=(group,))]), bootstrap="kafka-1:9092,[::1]:9093"))
    parts = (
        "age 3 h 0 min",
        "consumer groups readers (lag 2 offsets)",
        "next (dry run) runbook kafka-transaction-exporter abort",
        "--bootstrap-server &#x27;kafka-1:9092,[::1]:9093&#x27; --topic orders --partition 0 --start-offset 1234 --dry-run",
        "No coordinator knows producer id 4000",
        "idle 3 h 0 min (since its last write by client clock)",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_the_cluster_s_name_is_the_heading_of_a_fleet_of_one() -> None:
    """Such a fleet has its brokers as the label `cluster`; the link to the overview stays."""
    page = _page(published(evaluation(), cluster="kafka-1:9092", cluster_name="payments"))
    assert '<code id="cluster">payments</code>' in page
    assert '<a href="/">all clusters</a>' in page


def test_the_number_agrees() -> None:
    """One transaction has its marker, two have theirs."""
    rows = [hanging(), hanging(partition=1)]
    summaries = [summarize(evaluation(THREE, rows[:count]), status()) for count in (1, 2)]
    assert [(summary.title, summary.notes[0]) for summary in summaries] == [
        (
            "read_committed consumers of orders-0 stop: 1 transaction hangs",
            "Proved: no coordinator will write its marker.",
        ),
        (
            "read_committed consumers of 2 partitions stop: 2 transactions hang",
            "Proved: no coordinator will write their markers.",
        ),
    ]


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ([hanging(groups=(BLOCKED, BEHIND))], "Consumer group emails is blocked: 1 transaction hangs"),
        (
            [
                hanging(groups=(BLOCKED,)),
                hanging(partition=1, groups=(replace(BLOCKED, group="audit"),)),
                hanging(partition=2),
            ],
            "2 consumer groups are blocked: 3 transactions hang",
        ),
        ([inconclusive(groups=(BLOCKED,))], "Consumer group emails is blocked: 1 suspect transaction"),
        ([inconclusive(groups=(BEHIND,))], "1 suspect transaction"),
    ],
)
def test_the_headline_says_first_who_stands_still(rows: list[TransactionRow], title: str) -> None:
    """What an operator's users feel comes before the proof; a group that has not reached the transaction does not wait."""
    assert summarize(evaluation(THREE, rows), status()).title == title


def test_a_suspect_is_explained_and_its_groups_are_never_left_out() -> None:
    """A reader of the page alone learns what the word means; that no group was seen is said as on the incident's page."""
    one = _text(published(evaluation([Partition()], [hanging()])))
    assert "1 suspect (an open transaction that needs attention; ages as of" in one
    assert "consumer groups none seen" in one
    assert "Unread: nothing" in one
    two = _text(published(evaluation(THREE, [hanging(), hanging(partition=1)])))
    assert "2 suspects (open transactions that need attention; worst first; ages as of" in two


def test_many_gaps_do_not_hide_the_suspects() -> None:
    """Two in the headline, the number of the others; all are below the suspects."""
    brokers = tuple(broker(number, f"broker {number} is down") for number in range(5))
    summary = summarize(evaluation([Partition()], [hanging()], brokers=brokers), status())
    assert summary.notes[1:4] == ("Broker 0 is down.", "Broker 1 is down.", "3 more gaps, see Unread.")


def test_the_longest_of_the_others_are_listed() -> None:
    """Transactions that are not suspects: longest first, ten of all, with the id only where ids are shown."""
    rows = [transaction(duration_ms=n * 1000, transactional_id=f"app-{n}") for n in range(1, 13)]
    publication = published(evaluation([Partition()], [*rows, inconclusive()]))
    text = _text(publication)
    assert "Open transactions that are not suspects (the 10 longest of 12)" in text
    assert re.findall(r"app-(\d+)", text) == [str(n) for n in range(12, 2, -1)]
    assert "orders-0 app-12 12 s open_within_timeout" in text
    assert "app-12" not in _text(replace(publication, options=PublishOptions(transactional_ids=False)))
    before = transaction(transactional_id=None, duration_ms=0, start_source=StartSource.FIRST_SEEN)
    assert "orders-0 at least 0 ms open_within_timeout" in _text(published(evaluation([Partition()], [before])))
    assert "Open transactions that are not suspects None." in _text(published(evaluation([Partition()], [hanging()])))


def test_only_verdicts_with_a_transaction_are_counted() -> None:
    """Nine zeros would take more room than the suspects."""
    section = re.search('<section id="verdicts">.*?</section>', _page(three_hangs()).replace("<wbr>", ""), re.DOTALL)
    assert section is not None
    assert re.findall(r"<td class=\"word\">(\w+)</td>", section[0]) == [
        "hanging_stale_epoch",
        "hanging_no_transactional_id",
        "inconclusive",
        "open_within_timeout",
    ]


def test_bytes_on_disk_are_next_to_the_offsets() -> None:
    """With their growth and the end of it where they are known; a row that holds no bytes back says nothing of them."""
    publication = bytes_behind_transactions()
    assert (
        "bytes held about 100 bytes, 3.0 kB more each minute on average: its log directory is full in 2 h 0 min"
        in _text(publication)
    )

    evaluated = publication.evaluation
    assert evaluated is not None
    once = {key: replace(each, bytes_per_second=None, log_dir_full_ms=None) for key, each in evaluated.held.items()}
    assert "bytes held about 10 bytes transactional id" in _text(
        replace(publication, evaluation=replace(evaluated, held=once))
    )
    assert "bytes held" not in _text(three_hangs())


def test_a_suspect_shows_all_that_an_operator_needs() -> None:
    """Partition, verdict, evidence, age with its source, idle, lag, ids and coordinator: all of one suspect."""
    text = _text(three_hangs())
    for words in (
        "we&quot;ird\\topic-0 hanging_stale_epoch",
        "Coordinator 2 is at epoch 9 of stock-7 and ongoing; the records open here are of epoch 3.",
        "age 3 h 0 min (since its last write by client clock, late)",
        "idle 3 h 0 min (since its last write by client clock)",
        "offsets held back 42",
        "transactional id stock-7",
        "producer id / epoch 4000 / 3",
        "start offset 1234",
        "coordinator broker 2, state Ongoing, epoch 9",
        "__consumer_offsets-0 inconclusive: ids_may_be_denied",
        "ages as of 2027-01-15 08:00:00 UTC",
    ):
        assert words in text


@pytest.mark.parametrize("source", StartSource)
def test_every_source_of_a_start_has_words(source: StartSource) -> None:
    """A row with any of them is a page."""
    row = inconclusive(start_source=source, inconclusive_reason=InconclusiveReason.LOADING)
    words = {
        StartSource.COORDINATOR: "start from its coordinator",
        StartSource.FIRST_SEEN: "since first seen by this exporter",
        StartSource.LAST_WRITE: "since its last write by client clock",
        StartSource.NOT_OPEN_BEFORE: "not open before by broker clock",
        StartSource.TRANSACTION_LOG: "start from the transaction log",
    }
    page = published(evaluation([Partition()], [row]))

    assert words[source] in _text(page)


def test_a_suspect_that_is_longer_than_usual_says_than_what() -> None:
    """The sentence names the id, the usual duration and the number of samples."""
    usual = UsualDuration(of="transactional id 'billing-7'", threshold_ms=3000, p99_ms=90_000, samples=1234)
    page = published(evaluation([Partition()], [hanging(unusual=usual)]))

    assert "99th percentile 1 min 30 s (1,234 samples)" in _text(page)
    assert "longer than usual" not in _text(three_hangs())


def test_a_suspect_names_the_longest_queues_behind_it() -> None:
    """Five groups by name with their waiting records, the others by number; without groups there is no such line."""
    groups = tuple(
        WaitingGroup(
            group=f"group-{n}",
            committed_offset=n,
            waiting_records=1000 * (9 - n),
            blocked_since_ms=TAKEN_AT_MS - 120_000 if n == 0 else None,
        )
        for n in range(7)
    )
    resident = WaitingGroup(group="<lives here>", committed_offset=None, waiting_records=None)

    def words_of(row: TransactionRow) -> str:
        evaluated = evaluation([Partition()], [row])
        return _text(published(evaluated))

    queued = words_of(hanging(groups=groups))
    living = words_of(hanging(groups=(resident,)))

    assert (
        "consumer groups group-0 (seen blocked for 2 min 0 s, lag 9,000 offsets), group-1 (lag 8,000 offsets)" in queued
    )
    assert "group-4 (lag 5,000 offsets) and 2 more" in queued
    assert "group-5" not in queued
    assert "consumer groups &lt;lives here&gt;" in living
    assert "consumer groups none seen" in words_of(hanging())


def test_unknown_things_are_called_unknown() -> None:
    """A missing lag, id or coordinator is never shown as a number or left blank."""
    rows = [
        hanging(last_stable_offset_lag=None),
        inconclusive(inconclusive_reason=InconclusiveReason.LOADING),
        hanging(verdict=Verdict.HANGING_NOT_IN_TRANSACTION, coordinator=5),
    ]
    text = _text(published(evaluation([Partition()], rows)))
    assert "offsets held back unknown" in text
    assert "transactional id unknown" in text
    assert "coordinator none lists this producer id" in text
    assert "coordinator unknown" in text
    assert "coordinator broker 5 " in text


def test_suspects_come_worst_first_and_the_rest_is_counted() -> None:
    """The page has a stated maximum and says how many it leaves out."""
    rows = [hanging(producer_id=number, duration_ms=number * 1000) for number in range(1, 251)]
    page = _page(published(evaluation([Partition()], rows)))
    shown = [int(found) for found in re.findall(r"(\d+) / 3</dd>", page)]
    assert shown == list(range(250, 50, -1))
    assert "50 more suspects not shown here." in page


def test_coverage_says_what_is_missing_and_why() -> None:
    """Unread partitions by reason with examples, failed brokers and coordinators, the fallback: all on the page."""
    text = _text(partial_coverage())
    for words in (
        "partitions read 1 of 3",
        "brokers that responded 1 of 2",
        "coordinators that responded 1 of 2",
        "1 partition unread TOPIC_AUTHORIZATION_FAILED payments-0",
        "1 partition unread timed_out orders-1",
        "broker 2 (kafka-2.example:9092) no answer to DescribeProducers within 10 s",
        "coordinator 2 connection refused",
        "transaction.max.timeout.ms of broker 1 CLUSTER_AUTHORIZATION_FAILED",
        "transaction.max.timeout.ms 15 min 0 s fallback: could not be read from any broker",
    ):
        assert words in text


def test_brokers_that_differ_in_their_limit_are_shown() -> None:
    """The largest limit is used; that a broker has a smaller one, or an unread one, is shown with it."""
    limits = MaxTimeout(timeout_ms=900_000, timeout_ms_min=60_000, unread=((2, "timed out"),))
    publication = published(evaluation(max_timeout=limits))
    assert "15 min 0 s brokers differ: smallest 1 min 0 s; 1 broker unread" in _text(publication)


def test_lists_of_failures_have_a_maximum() -> None:
    """A cluster of three hundred dead brokers does not make an endless page."""
    brokers = tuple(broker(number, "refused") for number in range(300))
    publication = published(evaluation(brokers=brokers))
    assert _page(publication).count("refused") == 50
    assert "250 more failures" in _text(publication)


def test_many_unread_partitions_are_counted_with_a_few_examples() -> None:
    """Five names and an ellipsis represent a thousand."""
    rows = [Partition(partition=number, unread="no_leader") for number in range(1000)]
    text = _text(published(evaluation(rows)))
    assert "1,000 partitions unread no_leader orders-0, orders-1, orders-2, orders-3, orders-4, …" in text


hostile = st.text(st.sampled_from("<>&\"'/{}$\n\0 ab"), min_size=1, max_size=40)


@given(hostile, hostile, hostile, hostile, hostile)
def test_nothing_from_outside_becomes_markup(
    topic: str, identity: str, reason: str, failure: str, cluster: str
) -> None:
    """Names and sentences from brokers appear as text: the elements of the page are those of a tame one."""

    def elements(topic: str, identity: str, reason: str, failure: str, cluster: str) -> list[str]:
        rows = [hanging(topic, transactional_id=identity, reason=reason)]
        partitions = [Partition(topic=topic), Partition(topic=topic, partition=1, unread=failure)]
        evaluated = evaluation(partitions, rows, brokers=(broker(1, failure),), cluster_id=cluster)
        own: ClusterStatus = status(last_cycle_succeeded=False, last_failure=failure)
        # The link to the incident has the name of the topic, encoded.
        page = re.sub(
            r'href="/incidents\?topic=[\w%.+~-]*&amp;', 'href="/incidents?', _page(published(evaluated, status=own))
        )
        return re.findall(r"<[^>]*>", page)

    assert elements(topic, identity, reason, failure, cluster) == elements("t", "i", "r", "f", "c")


def test_a_name_that_is_not_text_does_not_cost_the_page() -> None:
    """A lone surrogate becomes a question mark."""
    evaluated = evaluation([Partition(topic="a\udc80b")], [hanging("a\udc80b")])
    assert "a?b-0" in _page(published(evaluated))


def test_a_dead_loop_is_shown_above_everything() -> None:
    """The page was made while the loop lived: the alarm is put in front of its headline, escaped."""
    page = render_page(three_hangs()).with_alarm("No cycle since <b>08:00</b>.").decode()
    assert page.index('id="alarm"') < page.index('id="headline"')
    assert "No cycle since &lt;b&gt;08:00&lt;/b&gt;." in page
    assert 'id="alarm"' not in _page(three_hangs())


def test_the_page_fetches_nothing() -> None:
    """No picture, font, sheet or script from anywhere: it works where the cluster's network is all there is.

    No link leaves the exporter.
    """
    page = _page(three_hangs())
    assert re.findall(r"<img|<link|<script [^>]*|src=|url\(|@import", page) == []
    assert re.findall(r"<script>(.*?)</script>", page, re.DOTALL) == [SCRIPT]
    links = set(re.findall(r'href="([^"]*)"', page))
    of_suspects = {link for link in links if link.startswith("/incidents?topic=")}
    assert len(of_suspects) == page.count('<article class="suspect">')
    assert links - of_suspects == {
        "/runbooks/KafkaTransactionHanging.md",
        "/runbooks/KafkaTransactionInconclusive.md",
        "/runbooks/README.md",
        "/incidents",
        "/metrics",
        "/-/healthy",
        "/-/ready",
    }


def test_the_page_renews_itself_once_a_cycle_and_not_more_than_every_ten_seconds() -> None:
    """Somebody who watches sees the next cycle; a short interval does not make the page flicker."""
    for interval_ms, seconds in ((30_000, 30), (1_000, 10)):
        publication = published(None, status=status(interval_ms=interval_ms))
        assert f'http-equiv="refresh" content="{seconds}"' in _page(publication)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_can_be_read(colours: dict[str, str]) -> None:
    """Text and background differ by 4.5 to 1 or more (WCAG 2, level AA), in both colour schemes."""
    pairs = [*itertools.product(("text", "quiet", "link"), ("page", "panel"))]
    pairs += [(level.value, f"{level.value}-page") for level in Severity]
    assert {pair: ratio for pair in pairs if (ratio := contrast(*(colours[name] for name in pair))) < 4.5} == {}


def test_every_colour_named_is_defined() -> None:
    """A rule with an unknown colour would silently fall back to black."""
    assert set(re.findall(r"var\(--([\w-]+)\)", style_sheet())) == LIGHT.keys() == DARK.keys()


# Words


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (59_999, "59 s"),
        (60_000, "1 min 0 s"),
        (3_600_000, "1 h 0 min"),
        (86_399_999, "23 h 59 min"),
        (93_784_000, "1 d 2 h"),
        (400 * 86_400_000, "400 d 0 h"),
    ],
)
def test_durations_in_words(duration_ms: int, words: str) -> None:
    """The two largest units, rounded down."""
    assert humanize_duration(duration_ms) == words


def test_instants_in_words() -> None:
    """UTC to the second; a client clock that no calendar holds is shown as it came."""
    assert humanize_instant(TAKEN_AT_MS) == "2027-01-15 08:00:00 UTC"
    assert humanize_instant(2**63 - 1) == "9223372036854775807 ms"


def test_transactional_ids_can_be_kept_from_readers() -> None:
    """Neither as a field nor in a sentence, on the page and in /metrics; the rest is as it was."""
    row = transaction(
        verdict=Verdict.HANGING_NOT_IN_TRANSACTION,
        transactional_id="payments-7",
        reason="Coordinator 1 has transactional id 'payments-7' Empty, so it has no transaction on orders-0.",
        unusual=UsualDuration(of="transactional id 'payments-7'", threshold_ms=1, p99_ms=1, samples=1),
    )
    shown = published(evaluation([Partition()], [row]))
    hidden = replace(shown, options=PublishOptions(transactional_ids=False))

    def texts(publication: Publication) -> list[str]:
        metrics = b"".join(Renderer().render(publication).text.chunks).decode()
        return [render_page(publication).with_alarm(None).decode(), metrics]

    assert all("payments-7" in text for text in texts(shown))
    assert not any("payments-7" in text for text in texts(hidden))
    assert "Coordinator 1 has transactional id (hidden) Empty" in texts(hidden)[0]
    assert "<dt>transactional id</dt><dd>not shown here</dd>" in texts(hidden)[0], "it is known"


def test_time_outs_are_listed_by_name_and_cannot_break_the_page() -> None:
    """The newest of them, the number of the others, and nothing where there is none."""
    ended = EndedByCoordinator(
        transactional_id="<orders-7>", outcome=Outcome.TIMED_OUT, at_ms=TAKEN_AT_MS, duration_ms=61_000,
        timeout_ms=60_000, partitions=tuple(f"orders-{number}" for number in range(7)),
    )  # fmt: skip
    page = _page(published(None, status=status(transaction_log=LogReport(timeouts=(ended,) * (SHOWN_MAX + 3)))))
    assert page.count("&lt;orders-7&gt;") == SHOWN_MAX
    assert "1 min 1 s (time-out 1 min 0 s)" in page
    assert "orders-4 and 2 more" in page
    assert "3 earlier ones not shown here" in page
    kept_back = published(None, status=status(transaction_log=LogReport(timeouts=(ended,))))
    assert "orders-7" not in _page(replace(kept_back, options=PublishOptions(transactional_ids=False)))
    assert 'id="timeouts"' not in _page(published(None, status=status(transaction_log=LogReport())))


def test_the_page_links_to_the_runbooks_that_are_named() -> None:
    """A copy in the operators' own wiki: then nothing leads to the project's forge."""
    own = "https://wiki.example.org/runbooks"
    page = _page(replace(three_hangs(), options=PublishOptions(runbook_url=own)))

    assert f'href="{own}/KafkaTransactionHanging.md"' in page
    assert "/runbooks/KafkaTransactionHanging.md" not in page.replace(own, "")


def test_who_stands_still_decides_which_hang_is_first() -> None:
    """Groups that are blocked, then what is held back, then the age; a suspect that may end by itself comes after all."""

    def named(partition: int, **changes: Any) -> TransactionRow:
        return hanging(partition=partition, **changes)

    group = WaitingGroup(group="billing", committed_offset=7, waiting_records=9)
    stuck = transaction(
        partition=4, verdict=Verdict.STUCK_COMPLETING, groups=(group, group), last_stable_offset_lag=10**6
    )
    rows = [
        stuck,
        named(3, last_stable_offset_lag=9, duration_ms=99_000),
        named(2, last_stable_offset_lag=9, duration_ms=999_000),
        named(1, last_stable_offset_lag=10_000, duration_ms=1),
        named(0, last_stable_offset_lag=1, duration_ms=1, groups=(group,), verdict=Verdict.HANGING_NOT_IN_TRANSACTION),
    ]

    assert [row.partition for row in sorted(rows, key=by_impact)] == [0, 1, 2, 3, 4]
    grown = replace(rows[1], last_stable_offset_lag=8)
    assert by_impact(grown) == by_impact(rows[1]), "a number that grows in each cycle does not exchange rows"
