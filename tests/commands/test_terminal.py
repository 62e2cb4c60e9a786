"""The output on a terminal: the table, durations, progress."""

from __future__ import annotations

import io
import sys
import threading
from dataclasses import replace
from socket import socket

import pytest

from exporter.commands import report
from exporter.commands.clusters import at_the_same_time
from exporter.commands.progress import Progress
from exporter.commands.report import opened_collector, waiting_notice
from exporter.commands.transactions_table import render_tables
from exporter.config.loading import load
from exporter.evaluation.evaluate import all_rows, evaluate
from exporter.evaluation.gaps import gaps
from exporter.evaluation.humanize import printable
from exporter.evaluation.memory import Memory
from exporter.evaluation.verdicts import Policy, StartSource
from exporter.snapshot import BrokerCoverage, CoordinatorCoverage, SecondRead, StatePartitionProof
from tests.commands.scenes import Terminal
from tests.evaluation.builders import NOW_MS, Entry, proof, snapshot, transaction
from tests.kafka.loopback import Listener


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

    table, _, _ = render_tables([(None, evaluation, all_rows(evaluation))], is_fleet=False).partition("\n\n")

    assert table == (
        "TOPIC   PARTITION  PRODUCER  EPOCH  START OFFSET  OPEN FOR   LATE  TRANSACTIONAL ID  VERDICT\n"
        "orders  0          7         3      100           1 s        no    app\N{REPLACEMENT CHARACTER}[31m          "
        "open_within_timeout\n"
        "orders  12         4000      3      100           1 h 1 min  yes   -                 "
        "hanging_no_transactional_id\n"
        "  Every coordinator is loaded and visible, and no coordinator lists producer id 4000; "
        "the transaction was open on orders-12 before and after the coordinators were queried."
    )


def test_a_transaction_that_a_command_has_just_seen_first_says_how_long_it_is_idle() -> None:
    """Nothing shows its start, and "0 ms" would look like a transaction that has just begun."""
    entry = Entry(partition=0, producer_id=4000, last_timestamp_ms=NOW_MS - 1_860_000)
    evaluation = evaluate(snapshot([entry], partitions=1), Memory(), Policy())
    (row,) = all_rows(evaluation)

    table = render_tables([(None, evaluation, [row])], is_fleet=False)

    assert row.start_source is StartSource.FIRST_SEEN
    assert "  idle 31 min 0 s  " in table


@pytest.mark.parametrize(("duration_ms", "shown"), [(0, "unknown"), (5000, "at least 5 s")])
def test_without_a_start_and_a_last_write_the_duration_is_no_number_of_its_own(duration_ms: int, shown: str) -> None:
    """Offsets alone show neither: a command has just seen it first, and one that watches knows a lower bound."""
    evaluation = evaluate(snapshot([Entry()], partitions=1), Memory(), Policy())
    (row,) = all_rows(evaluation)
    unseen = replace(
        row, start_source=StartSource.FIRST_SEEN, last_timestamp_ms=-1, idle_ms=None, duration_ms=duration_ms
    )

    assert f"  {shown}  " in render_tables([(None, evaluation, [unseen])], is_fleet=False)


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


class Screen(Terminal):
    """A terminal on which a test waits for the first line."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written = threading.Event()

    def flush(self) -> None:
        super().flush()
        self.is_written.set()


def test_a_command_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that accepts and is silent: one line with its address and the longest wait, on a terminal only."""
    silent_for: list[socket] = []
    closed, screen = threading.Event(), Screen()

    def keep(connection: socket) -> None:
        silent_for.append(connection)
        closed.wait(10)

    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(report, "SILENT_SECONDS", 0.0)
    with Listener(keep) as broker:
        flags = {"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}", "scan.deadline": "13s"}
        settings = load(file=None, environment={}, flags=flags).settings
        with opened_collector(settings):
            assert screen.is_written.wait(10)
        closed.set()

    assert screen.getvalue() == (
        f"kafka-transaction-exporter: no response from 127.0.0.1:{broker.port} yet; waiting for up to 13 s\n"
    )


def test_a_command_that_has_its_response_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same wait after a response has come, and standard error that is not a terminal."""
    screen, file, is_asked = Screen(), io.StringIO(), threading.Event()
    monkeypatch.setattr(report, "SILENT_SECONDS", 0.0)

    def has_ended() -> bool:
        is_asked.set()
        return False

    monkeypatch.setattr(sys, "stderr", screen)
    with waiting_notice("waiting", has_ended):
        assert is_asked.wait(10)
    monkeypatch.setattr(sys, "stderr", file)
    with waiting_notice("waiting"):
        pass

    assert (screen.getvalue(), file.getvalue()) == ("", "")


def test_one_cluster_is_read_in_the_thread_that_ctrl_c_interrupts() -> None:
    """And several at the same time: each waits for the other."""
    one = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1"}).settings.watched
    together = threading.Barrier(2, timeout=10)

    assert at_the_same_time(lambda _: threading.current_thread(), one) == (threading.current_thread(),)
    assert sorted(at_the_same_time(lambda _: together.wait(), (*one, *one))) == [0, 1]
