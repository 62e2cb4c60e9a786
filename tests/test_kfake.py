"""On kfake, the brokers of franz-go's own tests, which show no topic `__transaction_state`, nothing false is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from examples.workload.producers import OpenTransaction, run_transaction
from exporter.evaluation.verdicts import InconclusiveReason, Verdict
from hangbench.kafka.broker import HOST
from hangbench.kafka.ports import free_ports
from hangbench.kafka.topics import Topics
from tests.marks import starts
from tests.real_brokers.exporting import called
from tests.storage.server import started
from tests.tools import ToolUnavailable, kfake
from tests.watching import Watch, rows_on

TOPIC = "orders"
BROKERS = 3
LIVE = {0: "billing-0", 1: "billing-1"}
"""Partition -> transactional id of its open transaction."""


@contextmanager
def brokers(folder: Path, *behaviour: str) -> Iterator[str]:
    """The addresses of three brokers with the transactions of LIVE; another id has committed on all partitions."""
    try:
        program = kfake()
    except ToolUnavailable as missing:
        pytest.skip(str(missing))
    ports = free_ports(BROKERS)
    process = started([program, *behaviour, *map(str, ports)], ports[-1], folder / "log.txt")
    try:
        addresses = ",".join(f"{HOST}:{port}" for port in ports)
        Topics(addresses, replication_factor=1).create(TOPIC, partitions=3)
        run_transaction(addresses, "billing-2", [(TOPIC, partition) for partition in range(3)])
        live = [OpenTransaction(addresses, name, [(TOPIC, at)], timeout_ms=600_000) for at, name in LIVE.items()]
        for transaction in live:
            transaction.__enter__()
        yield addresses
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
@starts("programs")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with brokers(tmp_path_factory.mktemp("kfake")) as addresses:
        yield addresses


@pytest.fixture
@starts("programs")
def without_lists(tmp_path: Path) -> Iterator[str]:
    """Their lists of transactions are empty, and not an error."""
    with brokers(tmp_path, "unlisted") as addresses:
        yield addresses


def run(bootstrap: str, folder: Path, command: str, *arguments: str) -> CompletedProcess[str]:
    return called(folder, command, "--bootstrap-server", bootstrap, *arguments)


def test_doctor_promises_no_proof(bootstrap: str, tmp_path: Path) -> None:
    done = run(bootstrap, tmp_path, "doctor", "--format", "json")

    diagnosis = json.loads(done.stdout)
    assert (done.returncode, diagnosis["provable"], diagnosis["level"]) == (4, "none", "watch_only")
    assert diagnosis["sentence"] == "No hang can be proved: brokers show no topic __transaction_state."
    results = {finding["check"]: finding["result"] for finding in diagnosis["findings"]}
    assert results["topics"] == "1 topic, no ACL hides one; whether a proxy does is unknown"
    assert results["transactional ids"] == "no ACL hides one; whether the coordinators show all is unknown"


def test_live_transactions_are_shown_as_live_and_coverage_is_incomplete(bootstrap: str, tmp_path: Path) -> None:
    """A transaction that its broker describes is not a suspect; that no other is open is no proof of health."""
    done = run(bootstrap, tmp_path, "find-hanging", "--all", "--format", "json")

    found = json.loads(done.stdout)
    rows = {row["partition"]: (row["transactional_id"], row["verdict"]) for row in found["transactions"]}
    assert rows == {partition: (name, "open_within_timeout") for partition, name in LIVE.items()}
    assert done.returncode == 4
    assert (found["coverage"]["complete"], found["coverage"]["proof_level"]) == (False, "watch_only")
    assert "brokers show no topic __transaction_state, although transactions are open" in found["coverage"]["gaps"]


def test_an_id_is_listed_at_its_coordinator_alone(bootstrap: str, tmp_path: Path) -> None:
    """Every broker of kfake lists every id."""
    rows = json.loads(run(bootstrap, tmp_path, "list", "--format", "json").stdout)
    described = json.loads(run(bootstrap, tmp_path, "describe", "--transactional-id", LIVE[0], "--format=json").stdout)

    assert sorted(row["transactional_id"] for row in rows) == ["billing-0", "billing-1", "billing-2"]
    assert [row["coordinator"] for row in rows if row["transactional_id"] == LIVE[0]] == [described["coordinator"]]


def test_why_names_the_transaction_and_advises_nothing(bootstrap: str, tmp_path: Path) -> None:
    done = run(bootstrap, tmp_path, "why", "--transactional-id", LIVE[1])

    assert f"transactional id '{LIVE[1]}'" in done.stdout
    assert "hang" not in done.stdout
    assert "Next" not in done.stdout
    assert "Nothing unusual: " in done.stdout


def test_a_live_transaction_is_not_aborted(bootstrap: str, tmp_path: Path) -> None:
    """`abort` refuses, and the transaction is still open."""
    rows = json.loads(run(bootstrap, tmp_path, "find-hanging", "--all", "--format", "json").stdout)["transactions"]
    start_offset = next(row["start_offset"] for row in rows if row["partition"] == 0)

    place = ("--topic", TOPIC, "--partition", "0", "--start-offset", str(start_offset))
    done = run(bootstrap, tmp_path, "abort", *place, "--yes")

    assert done.returncode == 5
    assert "refused, nothing is written: the verdict is open_within_timeout" in done.stderr
    described = json.loads(run(bootstrap, tmp_path, "describe", "--transactional-id", LIVE[0], "--format=json").stdout)
    assert described["state"] == "Ongoing"


def test_a_live_transaction_that_nobody_lists_is_not_hanging(without_lists: str, tmp_path: Path) -> None:
    """An empty list proves nothing where it is unknown which brokers are coordinators, also in the second cycle."""
    with Watch(without_lists) as watch:
        watch.cycle()
        rows = rows_on(watch.cycle(), TOPIC)

    reasons = {partition: (row.verdict, row.inconclusive_reason) for partition, row in rows.items()}
    assert reasons == dict.fromkeys(LIVE, (Verdict.INCONCLUSIVE, InconclusiveReason.TRANSACTION_STATE_ABSENT))
    place = ("--topic", TOPIC, "--partition", "0", "--start-offset", str(rows[0].start_offset))
    done = run(without_lists, tmp_path, "abort", *place, "--yes")
    assert done.returncode == 5
    assert "refused, nothing is written" in done.stderr
