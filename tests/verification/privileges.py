"""Measures what each grant is for: `python -m tests.verification.privileges` writes the table of README.md.

One broker with the StandardAuthorizer, one user for each row: all minimum ACLs but one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from examples.workload.producers import OpenTransaction
from exporter.evaluation.evaluate import all_rows
from exporter.evaluation.verdicts import Evaluation
from hangbench.kafka.acls import allow
from hangbench.kafka.groups import commit_all
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, plant_hang_without_id
from hangbench.kafka.second_door import GuardedCluster
from tests.watching import Watch

ACLS: Final = Path(__file__).parents[2] / "docs" / "security.md"
DOCUMENT: Final = Path(__file__).with_name("README.md")
BEGINNING: Final = "<!-- From here on made by `python -m tests.verification.privileges`. -->\n"
CLUSTER = ResourceType.BROKER  # librdkafka's word for the resource that Kafka calls Cluster
FULL: Final = "everything"
KNOWN, UNKNOWN_ID, LIVE = "known", "unknown", "live"
GROUP: Final = "readers"
PATIENCE_S: Final = 60
LIVE_MS: Final = 900_000
"""Time-out of the live transaction, the longest that a broker allows by default: a measurement may take minutes."""

GRANTS: Final[Mapping[str, tuple[ResourceType, str, AclOperation]]] = {
    "DESCRIBE on topics": (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
    "READ on topics": (ResourceType.TOPIC, "*", AclOperation.READ),
    "DESCRIBE on transactional ids": (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),
    "DESCRIBE on the cluster": (CLUSTER, "kafka-cluster", AclOperation.DESCRIBE),
    "DESCRIBE_CONFIGS on the cluster": (CLUSTER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
    "DESCRIBE on groups": (ResourceType.GROUP, "*", AclOperation.DESCRIBE),
}
"""The table of minimum ACLs in docs/security.md, row by row."""

IMPLIES: Final = {"READ on topics": "DESCRIBE on topics"}
View = Mapping[str, str]


def user_without(grant: str) -> str:
    """The user who has all other grants."""
    return f"without-{grant.replace(' ', '-').lower()}"


USERS: Final = {FULL: "watcher", **{grant: user_without(grant) for grant in GRANTS}}


@contextmanager
def guarded(version: str) -> Iterator[GuardedCluster]:
    """The broker, its users with their grants, and what they look at."""
    cluster = GuardedCluster(version, users=USERS.values(), properties=HANGS_CAN_BE_PLANTED)
    with cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        bindings = [
            allow(user, *wanted)
            for row, user in USERS.items()
            for grant, wanted in GRANTS.items()
            if row not in {grant, IMPLIES.get(grant)}
        ]
        for made in admin.create_acls(bindings).values():
            made.result(30)
        for topic in (KNOWN, UNKNOWN_ID, LIVE):
            cluster.topics.create(topic)
        plant_hang(cluster.bootstrap, KNOWN, 0, "known-id")
        plant_hang_without_id(cluster.bootstrap, UNKNOWN_ID, 0)
        commit_all(cluster.bootstrap, GROUP, {(KNOWN, 0): 0})
        with OpenTransaction(cluster.bootstrap, "live-id", [(LIVE, 0)], timeout_ms=LIVE_MS):
            yield cluster


def seen_by(cluster: GuardedCluster, user: str) -> View:
    """What two cycles show this user, question by question."""
    with Watch(cluster.door, user=user) as watch:
        watch.cycle()
        return _view(watch.cycle())


def settled(cluster: GuardedCluster, user: str, expected: Callable[[View], bool]) -> View:
    """The view once it is as expected, or as it is at last: a broker takes ACLs over within moments."""
    deadline = time.monotonic() + PATIENCE_S
    while not expected(view := seen_by(cluster, user)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return view


def _view(evaluation: Evaluation) -> View:
    partitions = evaluation.snapshot.partitions
    unread = {
        partitions.name(row)[0]: f"unread ({partitions.reasons[int(partitions.reason[row])]})"
        for row in range(len(partitions))
        if not partitions.is_covered[row]
    }
    rows = {row.topic: row for row in all_rows(evaluation)}

    def of(topic: str) -> str:
        if topic in unread:
            return unread[topic]
        if topic not in rows:
            return "not seen at all"
        reason = rows[topic].inconclusive_reason
        return rows[topic].verdict.label + ("" if reason is None else f" ({reason.value})")

    groups = [group.group for row in rows.values() for group in row.groups]
    return {
        "a hang whose id is known": of(KNOWN),
        "a hang whose id nobody knows": of(UNKNOWN_ID),
        "a live transaction": of(LIVE),
        "`transaction.max.timeout.ms`": "taken to be the fallback" if evaluation.max_timeout_is_fallback else "read",
        "groups that wait": "named" if groups else "not known",
        "bytes held on disk": "known" if any(row.held_bytes for row in rows.values()) else _unknown(evaluation),
    }


def _unknown(evaluation: Evaluation) -> str:
    disk = evaluation.snapshot.disk
    return "not known" if disk is None else f"not known ({'; '.join(disk.failures)})"


def losses(views: Mapping[str, View]) -> dict[str, dict[str, str]]:
    """Grant -> what is otherwise than with all grants."""
    full = views[FULL]
    return {
        grant: {question: view[question] for question in full if view[question] != full[question]}
        for grant, view in views.items()
        if grant != FULL
    }


def measured(version: str) -> Mapping[str, View]:
    """The view of every user."""
    with guarded(version) as cluster:
        return {row: seen_by(cluster, user) for row, user in USERS.items()}


def document(before: str, views: Mapping[str, View]) -> str:
    """The document `before` with a new table."""
    by_hand, mark, _ = before.partition(BEGINNING)
    assert mark, f"{DOCUMENT} lacks the line {BEGINNING}"
    return f"{by_hand}{mark}\n{table(views)}"


def table(views: Mapping[str, View]) -> str:
    """With all grants, and what each grant's absence changes."""
    full = "; ".join(f"{question}: {answer}" for question, answer in views[FULL].items())
    lines = ["| missing grant | what is otherwise |", "|---|---|", f"| none | {full} |"]
    for grant, lost in losses(views).items():
        lines.append(f"| {grant} | {'; '.join(f'{question}: {answer}' for question, answer in lost.items())} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the table."""
    argparse.ArgumentParser(prog="python -m tests.verification.privileges", description=__doc__).parse_args()
    DOCUMENT.write_text(document(DOCUMENT.read_text(encoding="utf-8"), measured("4.3.1")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
