"""The output on a terminal: the table, durations, progress."""

from __future__ import annotations

import io

from exporter.commands.progress import Progress
from exporter.commands.transactions_table import with_summary
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import printable
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy
from exporter.snapshot import BrokerCoverage, CoordinatorCoverage, SecondRead, StatePartitionProof
from tests.evaluation.builders import NOW_MS, Entry, proof, snapshot, transaction


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_whole_table() -> None:
    """Columns line up, and a suspect has its sentence below it."""
    taken = snapshot(
        [
            Entry(partition=0, producer_id=7),
            Entry(
                partition=12, producer_id=4000, second_read=SecondRead.UNCHANGED, last_timestamp_ms=NOW_MS - 3_700_000
            ),
        ],
        partitions=13,
        transactions=(transaction(transactional_id="app\x1b[31m"),),
        proof=proof(),
    )

    evaluation = evaluate(taken, Memory(), Policy())

    table, _, _ = with_summary(evaluation, all_rows(evaluation)).partition("\n\n")

    assert table == (
        "TOPIC   PARTITION  PRODUCER  EPOCH  START OFFSET  OPEN FOR   LATE  TRANSACTIONAL ID  VERDICT\n"
        "orders  0          7         3      100           1 s        no    app\N{REPLACEMENT CHARACTER}[31m          "
        "open_within_timeout\n"
        "orders  12         4000      3      100           1 h 1 min  yes   -                 "
        "hanging_no_transactional_id\n"
        "  Every coordinator is loaded and visible, and no coordinator lists producer id 4000; "
        "the transaction was open on orders-12 before and after the coordinators were queried."
    )


def test_a_transactional_id_cannot_command_the_terminal() -> None:
    """Control characters are shown as what they are not."""
    assert printable("a\x1b]0;x\x07\nb") == "a\ufffd]0;x\ufffd\ufffdb"


def test_progress_shows_after_a_while_and_is_wiped() -> None:
    """A scan of more than a second shows how far it is, and leaves an empty line."""
    now = [0.0]
    terminal = Terminal()

    with Progress(terminal, clock=lambda: now[0]) as progress:
        progress(10, 100)
        now[0] = 1.5
        progress(40, 100)
        progress(41, 100)

    assert terminal.getvalue() == "\r40 of 100 partitions read\r\033[K"


def test_progress_is_shown_on_a_terminal_only() -> None:
    """Standard error in a file or a pipe gets no carriage returns."""
    now = [0.0]
    stream = io.StringIO()

    with Progress(stream, clock=lambda: now[0]) as progress:
        now[0] = 5
        progress(40, 100)

    assert stream.getvalue() == ""


def test_gaps_name_everything_that_is_missing_once() -> None:
    """Unread partitions by reason, brokers, coordinators and the proof, each a sentence."""
    taken = snapshot(
        [Entry(second_read=SecondRead.UNCHANGED)],
        unread=[1, 2],
        brokers=(BrokerCoverage(broker=1, host="b", port=1, partitions=2, failure="broker 1 is down"),),
        coordinators=(CoordinatorCoverage(broker=1, failure="broker 1 is down"),),
        proof=proof(state_partitions=(StatePartitionProof(partition=0, leader=1, failure="loading"),)),
    )

    assert gaps(taken) == (
        "2 partitions are unread (timed_out), the first is orders-1",
        "broker 1 is down",
        "producers that no coordinator lists cannot be proved to hang: partitions of __transaction_state are still loading",
    )
    assert gaps(snapshot()) == ()
    assert snapshot().is_complete
