"""The documented grants are enough for everything, each is needed as documented, and none allows writing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from exporter.daemon.log_follower import NOT_YET
from exporter.kafka.markers import MarkerOutcome, write_marker
from exporter.kafka.messages.write_txn_markers import Marker
from hangbench.kafka.second_door import PASSWORD, GuardedCluster
from hangbench.waiting import until
from tests.marks import starts
from tests.real_brokers.exporting import called
from tests.real_brokers.log_reading import reading
from tests.verification.privileges import (
    ACLS,
    BEGINNING,
    DOCUMENT,
    FULL,
    GRANTS,
    KNOWN,
    USERS,
    guarded,
    losses,
    seen_by,
    settled,
    table,
)
from tests.watching import Watch

ROOT = Path(__file__).parents[2]
LOG_NOT_READ = {
    "DESCRIBE on topics": "__transaction_state is not visible: grant DESCRIBE and READ on it",
    "READ on topics": (
        "partition 0: not authorized to read __transaction_state (TOPIC_AUTHORIZATION_FAILED): needs READ on it, and 4 more"
    ),
}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USERS[FULL]}


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def cluster(request: pytest.FixtureRequest) -> Iterator[GuardedCluster]:
    with guarded(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster: GuardedCluster) -> dict[str, str | int | float | bool]:
    """For librdkafka, as the user with all grants."""
    return {"bootstrap.servers": cluster.door, **LOGIN, "sasl.password": PASSWORD, "log_level": 0}


def test_the_document_names_these_grants_and_no_others() -> None:
    """A row of its table for each."""
    text = ACLS.read_text().split("## Minimum ACLs")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z_]+) \| (.+?) \|", text, re.MULTILINE)

    words = {"every topic": "topics", "every transactional id": "transactional ids", "the cluster": "the cluster"}
    words["every group"] = "groups"
    named = [
        f"{operation} on {next(name for start, name in words.items() if on.startswith(start))}"
        for operation, on in rows
    ]
    assert named == list(GRANTS)


def test_each_missing_grant_costs_what_the_document_says(cluster: GuardedCluster) -> None:
    """With all of them everything is proved and known; without one, what its row says and nothing else."""
    views = {FULL: settled(cluster, USERS[FULL], lambda view: "inconclusive" not in str(view))}
    views |= {grant: seen_by(cluster, USERS[grant]) for grant in GRANTS}

    assert views[FULL] == {
        "a hang whose id is known": "hanging_not_in_transaction",
        "a hang whose id nobody knows": "hanging_no_transactional_id",
        "a live transaction": "open_within_timeout",
        "`transaction.max.timeout.ms`": "read",
        "groups that wait": "named",
        "bytes held on disk": "known",
    }
    without_read = views["READ on topics"]
    assert (without_read["a hang whose id is known"], without_read["a hang whose id nobody knows"]) == (
        "hanging_by_offsets",
        "hanging_by_offsets",
    )
    assert without_read["groups that wait"] == "named"
    assert all(losses(views).values()), "a grant that nothing is lost without is not among the least"
    assert DOCUMENT.read_text().split(BEGINNING)[1].strip() == table(views).strip()


@pytest.mark.parametrize("missing", [FULL, "DESCRIBE on topics", "READ on topics", "DESCRIBE on groups"])
def test_the_transaction_log_needs_no_more_than_the_readme_grants(cluster: GuardedCluster, missing: str) -> None:
    """READ on every topic is READ on the log as well; without it the reader says what to grant. It needs no group."""
    with reading(
        cluster.door,
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="PLAIN",
        sasl__username=USERS[missing],
        sasl__password=PASSWORD,
    ) as reader:
        if "on topics" in missing:
            report = until(reader.report, lambda read: read.failure != NOT_YET)
            assert report.failure == LOG_NOT_READ[missing]
        else:
            report = until(reader.report, lambda read: read.partitions_current == 5)
            assert (report.failure, report.partitions_unread) == (None, 0)


def _login(cluster: GuardedCluster, folder: Path, missing: str) -> tuple[str, ...]:
    """Options for the user who lacks this grant."""
    properties = folder / "client.properties"
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={jaas} username="{USERS[missing]}" password="{PASSWORD}";\n'
    )
    return ("--bootstrap-server", cluster.door, "--command-config", str(properties))


@pytest.mark.parametrize("command", [("find-hanging", "--all"), ("find-hanging", "--format=json"), ("once",)])
def test_groups_that_cannot_be_seen_are_not_taken_for_none(
    cluster: GuardedCluster, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Brokers leave them out without a word; it makes no answer incomplete, since such a login would be so for ever."""
    seen, unseen = (
        called(tmp_path, command[0], *_login(cluster, tmp_path, missing), *command[1:])
        for missing in (FULL, "DESCRIBE on groups")
    )
    sentence = "not every group that stands still is known: needs DESCRIBE on every group"
    assert (sentence in seen.stderr, sentence in unseen.stderr) == (False, True)
    assert seen.returncode == unseen.returncode == 0


@pytest.mark.parametrize(
    ("missing", "status", "shown"),
    [
        (FULL, 0, "live-id"),
        ("DESCRIBE on topics", 4, "live-id"),
        ("DESCRIBE on transactional ids", 1, "transactional id 'live-id' is not visible: grant DESCRIBE on it"),
    ],
)
def test_an_owner_describes_an_id_with_a_right_on_it_alone(
    cluster: GuardedCluster, tmp_path: Path, missing: str, status: int, shown: str
) -> None:
    """Without DESCRIBE on topics the topic `__transaction_state` is not visible, as to every application; nor are its
    partitions, and the answer is incomplete.
    """
    words = _login(cluster, tmp_path, missing)
    run = called(tmp_path, "describe", *words, "--transactional-id", "live-id", "--format=json")

    assert run.returncode == status, run.stderr
    assert shown in (run.stderr if status == 1 else run.stdout)
    if status != 1:
        described = json.loads(run.stdout)
        assert (described["state"], described["may_hide_partitions"]) == ("Ongoing", status == 4)
        assert bool(described["partitions"]) is (status == 0)


def test_these_grants_write_nothing(cluster: GuardedCluster, client: dict[str, str | int | float | bool]) -> None:
    """No marker, no record, no transaction, no topic."""
    with Watch(cluster.door, user=USERS[FULL]) as watch:
        marker = Marker(topic=KNOWN, partition=0, producer_id=1, producer_epoch=0, coordinator_epoch=0, commit=False)
        watch.cycle()
        answer = watch.collector.query(lambda cluster_client: write_marker(cluster_client, 1, marker))
    refused: list[str] = []
    producer = Producer(client)
    producer.produce(
        KNOWN, b"x", on_delivery=lambda error, _: refused.append("none" if error is None else error.name())
    )
    producer.flush(30)
    transactional = Producer({**client, "transactional.id": "mine"})
    admin = AdminClient({**client})
    created = admin.create_topics([NewTopic("mine", 1, 1)])["mine"]

    assert (answer.outcome, answer.detail) == (MarkerOutcome.REFUSED, "CLUSTER_AUTHORIZATION_FAILED")
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"]
    with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        transactional.init_transactions(30)
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        created.result(30)
