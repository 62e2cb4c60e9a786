"""Attacks on recovery, many times each: the transaction changes before the marker, and no record is lost.

Every operator has an audit log of its own, whose lock a test holds for as long as something happens. Each test ends with a
read_committed consumer that sees every record whose commit was acknowledged to the producer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from exporter.commands import find_hanging, force_terminate
from exporter.commands.abort_planned import abort_planned
from exporter.commands.recover import recover
from exporter.recovery.plan import Action
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.planting import write_marker
from hangbench.situations.ground import open_entries, until
from hangbench.situations.steps import Client
from tests.conftest import FreshName, MakeTopic, SessionCluster
from tests.real_brokers.attacking import (
    TIMES,
    Held,
    abort_context,
    aborts,
    committed_offsets,
    context_of,
    interrupted,
    means_on,
    settings_of,
    state_of,
)

FEW: Final = 4
VERSIONS: Final = ("4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow))


@pytest.fixture(params=[FEW, pytest.param(TIMES, marks=pytest.mark.slow)])
def times(request: pytest.FixtureRequest) -> int:
    """How many transactions are attacked at once."""
    times: int = request.param
    return times


@pytest.fixture(params=VERSIONS)
def cluster(request: pytest.FixtureRequest, session_cluster: SessionCluster) -> KafkaCluster:
    return session_cluster(request.param)


class Hangs:
    """A topic with a hang on each partition: its id is Empty, and its client can go on."""

    def __init__(self, cluster: KafkaCluster, topic: str, name: str, *, partitions: int) -> None:
        self.topic = topic
        self.bootstrap = cluster.bootstrap
        self.clients = [Client.begin(cluster.bootstrap, f"{name}-{number}") for number in range(partitions)]
        for partition, client in enumerate(self.clients):
            client.write(topic, partition)

    def go_on(self, *, sequence: int = 1) -> None:
        """Every client takes its open record into a transaction that its coordinator knows, or begins a new one."""
        for partition, client in enumerate(self.clients):
            client.add(self.topic, [partition])
            client.write(self.topic, partition, sequence=sequence)

    def commit(self) -> None:
        """Every client commits, and gets the response."""
        for client in self.clients:
            client.end(commit=True)
        for client in self.clients:
            until(lambda begun=client: state_of(begun) == "CompleteCommit", "it is committed")  # type: ignore[misc]

    def offsets(self) -> dict[int, list[int]]:
        return committed_offsets(self.bootstrap, self.topic, len(self.clients))

    def aborting(self) -> list[Callable[[Path], int]]:
        """One operator for each."""
        return [
            lambda folder, number=partition: aborts(self.bootstrap, folder, self.topic, number)  # type: ignore[misc]
            for partition in range(len(self.clients))
        ]


@pytest.fixture
def hangs(cluster: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, times: int) -> Hangs:
    return Hangs(cluster, make_topic(cluster, partitions=times), fresh_name("id"), partitions=times)


def all_of(records: list[int], times: int) -> dict[int, list[int]]:
    return dict.fromkeys(range(times), records)


def test_a_producer_that_goes_on_while_the_lock_is_waited_for(hangs: Hangs, tmp_path: Path, times: int) -> None:
    """Same producer id, epoch and start offset: its old record is part of its next transaction, and is committed."""
    with Held(tmp_path, hangs.aborting()) as held:
        hangs.go_on()
        statuses = held.released()

    assert statuses == [5] * times
    hangs.commit()
    assert hangs.offsets() == all_of([0, 1], times)


def test_a_producer_that_goes_on_after_the_first_look(hangs: Hangs, tmp_path: Path, times: int) -> None:
    """It is judged and read in the lock, and only then continues: the read before the marker sees it."""
    statuses = []
    for partition, client in enumerate(hangs.clients):

        def goes_on(partition: int = partition, client: Client = client) -> None:
            client.add(hangs.topic, [partition])
            client.write(hangs.topic, partition, sequence=1)

        with interrupted(hangs.bootstrap, goes_on) as means:
            statuses.append(recover(abort_context(tmp_path, hangs.topic, partition), means, Action.ABORT))

    assert statuses == [1] * times
    hangs.commit()
    assert hangs.offsets() == all_of([0, 1], times)


@pytest.mark.parametrize("when", ["in the lock", "after the first look"])
def test_a_topic_that_is_made_again(hangs: Hangs, cluster: KafkaCluster, when: str, tmp_path: Path, times: int) -> None:
    """The same producers are in live transactions at the same offsets of a topic of the same name."""

    def made_again() -> None:
        cluster.topics.delete(hangs.topic)
        cluster.topics.create(hangs.topic, partitions=times)
        hangs.go_on(sequence=0)

    if when == "in the lock":
        with Held(tmp_path, hangs.aborting()) as held:
            made_again()
            statuses = held.released()
        assert statuses == [5] * times
    else:
        with interrupted(hangs.bootstrap, made_again) as means:
            assert recover(abort_context(tmp_path, hangs.topic, 0), means, Action.ABORT) == 1
    hangs.commit()
    assert hangs.offsets() == all_of([0], times)


def test_what_was_committed_elsewhere(
    cluster: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path, times: int
) -> None:
    """A late record of a committed transaction whose coordinator has gone on; an ABORT of the epoch is there as well."""
    topic = make_topic(cluster, partitions=times + 2)
    clients = [Client.begin(cluster.bootstrap, f"{fresh_name('id')}-{number}") for number in range(times)]
    for number, client in enumerate(clients):
        client.add(topic, [times])
        client.write(topic, times)
        client.end(commit=True)
        until(lambda begun=client: state_of(begun) == "CompleteCommit", "it is committed")  # type: ignore[misc]
        client.write(topic, times + 1)
        write_marker(cluster.bootstrap, topic, times + 1, client.producer_id, client.producer_epoch)
        client.write(topic, number)
        Client.begin(cluster.bootstrap, client.transactional_id)
        Client.begin(cluster.bootstrap, client.transactional_id)

    statuses = [aborts(cluster.bootstrap, tmp_path, topic, number) for number in range(times)]

    assert statuses == [5] * times
    for number, client in enumerate(clients):
        assert open_entries(cluster.bootstrap, topic, number)[client.producer_id].start_offset == 0


def test_a_healthy_newer_producer_is_not_terminated(
    cluster: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, tmp_path: Path, times: int
) -> None:
    """The shown transaction was committed; the same producer's next transaction, or a newer producer's, is open."""
    topic = make_topic(cluster, partitions=times)
    clients = [Client.begin(cluster.bootstrap, f"{fresh_name('id')}-{number}") for number in range(times)]
    for partition, client in enumerate(clients):
        client.open(topic, partition)
    settings = settings_of(cluster.bootstrap)

    def terminating(client: Client) -> Callable[[Path], int]:
        named = ("force-terminate", "--transactional-id", client.transactional_id, "--yes")
        return lambda folder: force_terminate.run(context_of(folder, *named), settings)

    with Held(tmp_path, [terminating(client) for client in clients]) as held:
        for partition, client in enumerate(clients):
            client.end(commit=True)
            until(lambda begun=client: state_of(begun) == "CompleteCommit", "it is committed")  # type: ignore[misc]
            if partition % 2:
                clients[partition] = Client.begin(cluster.bootstrap, client.transactional_id)
            clients[partition].add(topic, [partition])
            clients[partition].write(topic, partition, sequence=0 if partition % 2 else 1)
        statuses = held.released()

    assert statuses == [5] * times
    for client in clients:
        client.end(commit=True)
    until(lambda: all(state_of(client) == "CompleteCommit" for client in clients), "all are committed")
    assert committed_offsets(cluster.bootstrap, topic, times) == all_of([0, 2], times)


def test_two_operators_with_two_audit_logs(hangs: Hangs, tmp_path: Path, times: int) -> None:
    """The first aborts while the second waits for its own lock; the producers begin again before the second goes on."""
    with Held(tmp_path / "second", hangs.aborting()) as held:
        first = [aborts(hangs.bootstrap, tmp_path / "first", hangs.topic, number) for number in range(times)]
        hangs.go_on()
        second = held.released()

    assert (first, second) == ([0] * times, [1] * times)
    hangs.commit()
    assert hangs.offsets() == all_of([2], times)


def test_two_operators_between_look_and_marker(hangs: Hangs, tmp_path: Path, times: int) -> None:
    """The first aborts, and the producer begins again, after the second has read the partition in its lock."""
    statuses = []
    for partition, client in enumerate(hangs.clients):

        def meanwhile(partition: int = partition, client: Client = client) -> None:
            assert aborts(hangs.bootstrap, tmp_path / "first", hangs.topic, partition) == 0
            client.add(hangs.topic, [partition])
            client.write(hangs.topic, partition, sequence=1)

        with interrupted(hangs.bootstrap, meanwhile) as means:
            statuses.append(recover(abort_context(tmp_path, hangs.topic, partition), means, Action.ABORT))

    assert statuses == [1] * times
    hangs.commit()
    assert hangs.offsets() == all_of([2], times)


def test_two_operators_at_once(hangs: Hangs, tmp_path: Path, times: int) -> None:
    """One marker or two, and both see it gone: no transaction begins meanwhile."""
    for partition in range(times):
        statuses: list[int] = []

        def abort(who: str, partition: int = partition, statuses: list[int] = statuses) -> None:
            statuses.append(aborts(hangs.bootstrap, tmp_path / who, hangs.topic, partition))

        threads = [threading.Thread(target=abort, args=(who,)) for who in ("first", "second")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 0 in statuses
        assert set(statuses) <= {0, 1}

    hangs.go_on()
    hangs.commit()
    assert all(len(offsets) == 1 for offsets in hangs.offsets().values())


@pytest.mark.parametrize("when", ["before", "in the lock"])
def test_what_changes_between_a_plan_file_and_its_markers(
    cluster: KafkaCluster, make_topic: MakeTopic, fresh_name: FreshName, when: str, tmp_path: Path, times: int
) -> None:
    """Of three topics one is left alone and aborted, one has producers that go on, and one is made again."""
    alone, going_on, again = (
        Hangs(cluster, make_topic(cluster, partitions=times), fresh_name(name), partitions=times)
        for name in ("alone", "going", "again")
    )
    settings = settings_of(cluster.bootstrap)
    plans = []
    for hang in (alone, going_on, again):
        plans.append(tmp_path / f"{hang.topic}.json")
        named = ("find-hanging", "--topic", hang.topic, "--plan-file", str(plans[-1]))
        assert find_hanging.run(context_of(tmp_path, *named), settings) == 0

    def change() -> None:
        going_on.go_on()
        cluster.topics.delete(again.topic)
        cluster.topics.create(again.topic, partitions=times)
        again.go_on(sequence=0)

    def planned(plan: Path) -> Callable[[Path], int]:
        def run(folder: Path) -> int:
            named = ("abort", "--plan-file", str(plan), "--max-aborts", str(times), "--yes")
            with means_on(cluster.bootstrap) as means:
                return abort_planned(context_of(folder, *named), means)

        return run

    if when == "before":
        change()
        statuses: list[object] = []
        for plan in plans:
            folder = tmp_path / plan.stem
            folder.mkdir()
            statuses.append(planned(plan)(folder))
    else:
        with Held(tmp_path / "held", [planned(plan) for plan in plans]) as held:
            change()
            statuses = list(held.released())

    assert statuses == [0, 5, 5]
    for hang in (going_on, again):
        hang.commit()
    alone.go_on()
    alone.commit()
    assert going_on.offsets() == all_of([0, 1], times)
    assert again.offsets() == all_of([0], times)
    assert alone.offsets() == all_of([2], times)
