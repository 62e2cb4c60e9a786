"""Rights that a login lacks are in the plan, before the question, on brokers with ACLs; where they cannot be known, not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from examples.workload.producers import OpenTransaction
from hangbench.kafka.acls import acls_until_the_end, allow
from hangbench.kafka.cluster import CLUSTER_ID
from hangbench.kafka.coordinators import described
from hangbench.kafka.groups import commit
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from hangbench.kafka.second_door import GuardedCluster, java_login
from hangbench.situations.steps import Client
from hangbench.waiting import until
from tests.conftest import FreshName
from tests.marks import starts
from tests.real_brokers.exporting import ended

READER = "reader"
"""Who sees everything and may write nothing, as the exporter."""
WRITER = "writer"
"""Who may also write markers, and fence."""
UNLISTED = "unlisted"
"""Who may not DESCRIBE the cluster, so that brokers do not list the rights on it."""
OWNER = "owner"
"""Whose rights are on transactional ids alone."""
NOTHING_IS_WRITTEN = f"dry run on cluster {CLUSTER_ID}: nothing is written"
CLUSTER = ResourceType.BROKER  # librdkafka's word for the resource that Kafka calls Cluster
NEEDS_A_RIGHT = (
    "not authorized to write markers: this login needs ALTER (Kafka 3.8 and later) or CLUSTER_ACTION on the cluster; if it "
    "is the exporter's, log in as yourself (--command-config FILE)"
)


def binding(user: str, resource: ResourceType, operation: AclOperation) -> AclBinding:
    return allow(user, resource, "kafka-cluster" if resource is CLUSTER else "*", operation)


def owned(resource: ResourceType, right: str, prefix: str = "own") -> AclBinding:
    """A right of the owner on what begins with `prefix`."""
    permission, by_prefix = AclPermissionType.ALLOW, ResourcePatternType.PREFIXED
    return AclBinding(resource, prefix, by_prefix, f"User:{OWNER}", "*", AclOperation[right], permission)


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.1", marks=pytest.mark.slow)])
@starts("broker")
def guarded(request: pytest.FixtureRequest) -> Iterator[GuardedCluster]:
    users = (READER, WRITER, UNLISTED)
    cluster = GuardedCluster(request.param, users=(*users, OWNER), properties=HANGS_CAN_BE_PLANTED)
    with cluster, acls_until_the_end(cluster.bootstrap) as create:
        create(
            [
                *(binding(user, ResourceType.TOPIC, AclOperation.READ) for user in users),
                *(binding(user, ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE) for user in users),
                *(binding(user, CLUSTER, AclOperation.DESCRIBE) for user in (READER, WRITER)),
                owned(ResourceType.TOPIC, "READ"),
                owned(ResourceType.TOPIC, "DESCRIBE", "seen"),
                owned(ResourceType.GROUP, "DESCRIBE"),
                *(
                    binding(OWNER, ResourceType.TRANSACTIONAL_ID, AclOperation[right])
                    for right in ("DESCRIBE", "WRITE")
                ),
                binding(WRITER, CLUSTER, AclOperation.ALTER),
                binding(WRITER, ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
            ]
        )
        yield cluster


def as_user(cluster: GuardedCluster, user: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    properties = folder / f"{user}.properties"
    properties.write_text(java_login(user))
    home = folder / user
    home.mkdir(exist_ok=True)
    return ended(home, *arguments, "--bootstrap-server", cluster.door, "--command-config", str(properties))


def steps(folder: Path, user: str) -> list[str]:
    """The steps of the user's audit log."""
    log = next((folder / user).rglob("audit.jsonl"))
    return [json.loads(line)["step"] for line in log.read_text().splitlines()]


def test_an_abort_without_the_right_ends_before_the_question(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """The plan is shown and the right is named: as a dry run, with --yes and without, and by a plan file."""
    topic = guarded.topics.create(fresh_name("topic"))
    plant_hang(guarded.bootstrap, topic, 0, fresh_name("hang"))
    abort = ("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    plan = tmp_path / "plan.json"
    # Brokers take ACLs over within moments.
    allowed = until(lambda: as_user(guarded, WRITER, tmp_path, *abort, "--dry-run"), lambda run: run.returncode == 0)
    planned = as_user(guarded, READER, tmp_path, "find-hanging", "--topic", topic, "--plan-file", str(plan))

    dry = as_user(guarded, READER, tmp_path, *abort, "--dry-run")
    asked = as_user(guarded, READER, tmp_path, *abort)
    insisting = as_user(guarded, READER, tmp_path, *abort, "--yes")
    by_plan = as_user(guarded, READER, tmp_path, "abort", "--plan-file", str(plan), "--yes")

    assert allowed.stdout.splitlines()[-2] == NOTHING_IS_WRITTEN
    assert planned.returncode == 0, planned.stderr
    assert {run.returncode for run in (dry, asked, insisting, by_plan)} == {5}, by_plan
    assert " ".join(dry.stdout.split()).endswith(f"{NOTHING_IS_WRITTEN}; it would be refused: {NEEDS_A_RIGHT}")
    for run in (asked, insisting, by_plan):
        assert "write one ABORT marker for producer" in run.stdout
        assert f"refused, nothing is written: {NEEDS_A_RIGHT}" in run.stderr
        assert "no confirmation is possible" not in run.stderr
    assert not {"confirmed", "declined", "sending"} & set(steps(tmp_path, READER))
    assert as_user(guarded, WRITER, tmp_path, *abort, "--yes").returncode == 0


def test_a_right_that_brokers_do_not_list_is_not_denied_in_the_plan(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Without DESCRIBE on the cluster the plan says nothing of the right, and the broker refuses the marker."""
    topic = guarded.topics.create(fresh_name("topic"))
    plant_hang(guarded.bootstrap, topic, 0, fresh_name("hang"))
    forced = ("--force", "hanging_not_in_transaction", "--accept-data-loss", "--start-offset", "0")
    abort = ("abort", "--topic", topic, "--partition", "0", *forced)

    dry = until(lambda: as_user(guarded, UNLISTED, tmp_path, *abort, "--dry-run"), lambda run: run.returncode == 0)
    refused = as_user(guarded, UNLISTED, tmp_path, *abort, "--yes")

    assert dry.stdout.splitlines()[-2] == NOTHING_IS_WRITTEN
    assert refused.returncode == 1
    assert f"the broker refused the marker (CLUSTER_AUTHORIZATION_FAILED): {NEEDS_A_RIGHT}" in refused.stderr
    assert steps(tmp_path, UNLISTED)[-1] == "ended"
    assert "sending" in steps(tmp_path, UNLISTED)


def test_a_fence_is_refused_by_the_broker_alone(guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path) -> None:
    """No request that only reads shows the right to it, and a dry run sends no other: the plan names the right."""
    topic, name = guarded.topics.create(fresh_name("topic")), fresh_name("ongoing")
    OpenTransaction(guarded.bootstrap, name, [(topic, 0)]).__enter__()
    before = described(guarded.bootstrap, name)
    terminate = ("force-terminate", "--transactional-id", name)

    until(lambda: as_user(guarded, WRITER, tmp_path, *terminate, "--dry-run"), lambda run: run.returncode == 0)
    dry = as_user(guarded, READER, tmp_path, *terminate, "--dry-run")
    unlisted = as_user(guarded, UNLISTED, tmp_path, *terminate, "--dry-run")
    refused = as_user(guarded, READER, tmp_path, *terminate, "--yes")
    after = described(guarded.bootstrap, name)
    done = as_user(guarded, WRITER, tmp_path, *terminate, "--yes")

    right = "the command needs WRITE on the transactional id: whether this login has that is not visible"
    said = f"{NOTHING_IS_WRITTEN}; where there are ACLs, {right}"
    assert (dry.returncode, dry.stdout.splitlines()[-2]) == (0, said)
    # It sees `__consumer_offsets`, and cannot know whether an ACL hides another topic.
    assert "partitions of topics without DESCRIBE for this login are not listed" in unlisted.stdout
    assert "not listed" not in dry.stdout
    assert refused.returncode == 5
    assert f"not authorized to fence '{name}': this login needs WRITE on the transactional id" in refused.stderr
    assert after == before
    assert done.returncode == 0, done.stderr


def test_an_owner_terminates_its_id_with_the_rights_on_it_alone(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Kafka's own tool needs no more. The plan says that what the abort drops is not known, and `why` is incomplete."""
    topic, name = guarded.topics.create(fresh_name("topic")), fresh_name("ongoing")
    OpenTransaction(guarded.bootstrap, name, [(topic, 0)]).__enter__()
    terminate = ("force-terminate", "--transactional-id", name)

    dry = until(lambda: as_user(guarded, OWNER, tmp_path, *terminate, "--dry-run"), lambda run: run.returncode == 0)
    why = as_user(guarded, OWNER, tmp_path, "why", "--transactional-id", name)
    describe = as_user(guarded, OWNER, tmp_path, "describe", "--transactional-id", name, "--format", "table")
    done = as_user(guarded, OWNER, tmp_path, *terminate, "--yes")

    hidden = "this login does not see (needs DESCRIBE on their topics)"
    assert f"with partitions that {hidden}: what is dropped is not known; fence its producer" in dry.stdout
    assert why.returncode == 4
    assert f"Not known: its coordinator has it Ongoing on partitions that {hidden}." in " ".join(why.stdout.split())
    assert describe.returncode == 4
    assert "Partitions:       none that this login sees\n" in describe.stdout
    assert "incomplete: partitions of topics without DESCRIBE for this login are not listed" in describe.stderr
    assert done.returncode == 0, done.stderr
    after = described(guarded.bootstrap, name)
    assert after is not None
    assert after.transaction_state == "CompleteAbort"


def test_the_plan_of_an_owner_without_read_names_the_missing_right(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """It said that the partition could not be read, or had no record of the transaction."""
    topic, name = guarded.topics.create(fresh_name("seen")), fresh_name("ongoing")
    OpenTransaction(guarded.bootstrap, name, [(topic, 0)]).__enter__()

    terminate = ("force-terminate", "--transactional-id", name, "--dry-run")
    dry = until(lambda: as_user(guarded, OWNER, tmp_path, *terminate), lambda run: f"{topic}-0:" in run.stdout)

    why = as_user(guarded, OWNER, tmp_path, "why", "--transactional-id", name)

    assert f"\n  {topic}-0: what is dropped is not known (needs READ on the topic)\n" in dry.stdout
    assert why.returncode == 4
    assert (
        f"it Ongoing with {topic}-0, and kafka-transaction-exporter force-terminate --transactional-id {name} --dry-run "
        in " ".join(why.stdout.split())
    )


def test_nothing_found_is_said_with_what_may_be_hidden(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Brokers leave out topics without DESCRIBE: no hang on the others is no answer about those. About one topic it is."""
    topic = guarded.topics.create(fresh_name("own-topic"))
    find = ("find-hanging", "--format", "json")

    whole = until(lambda: as_user(guarded, READER, tmp_path, *find), lambda run: run.returncode == 0)
    partly = as_user(guarded, UNLISTED, tmp_path, *find)
    of_topic = as_user(guarded, OWNER, tmp_path, *find, "--topic", topic)

    hidden = "some topics may not be visible: needs DESCRIBE on the cluster to read the ACLs"
    assert f"{hidden}; what is open there is not shown" in partly.stderr
    assert json.loads(partly.stdout)["coverage"]["may_hide_topics"] == hidden
    for run in (whole, of_topic):
        assert "some topics may not be visible" not in run.stderr
        assert json.loads(run.stdout)["coverage"]["may_hide_topics"] is None


def test_an_owner_learns_of_an_offset_that_is_pending_where_it_does_not_see(
    guarded: GuardedCluster, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Without DESCRIBE on `__consumer_offsets` nobody is named, and no is not said; the plan says that it may lack some."""
    topic, group, name = guarded.topics.create(fresh_name("own-topic")), fresh_name("own-group"), fresh_name("own-id")
    commit(guarded, group, topic, 0)
    Client.begin(guarded.bootstrap, name).commit_offset_unheard(group, topic)
    ongoing = fresh_name("own-id")
    OpenTransaction(guarded.bootstrap, ongoing, [(topic, 0)]).__enter__()

    why = until(
        lambda: as_user(guarded, OWNER, tmp_path, "why", "--group", group), lambda run: run.returncode in {0, 4}
    )
    of_id = as_user(guarded, OWNER, tmp_path, "why", "--transactional-id", ongoing)
    plan = as_user(guarded, OWNER, tmp_path, "force-terminate", "--transactional-id", ongoing, "--dry-run")

    assert why.returncode == 4, why
    assert "Not known: an offset of it is pending in a transaction, in which one this login does not see" in why.stdout
    assert "Topics without DESCRIBE for this login are hidden: something of it may be open" in of_id.stdout, of_id
    assert "artitions of topics without DESCRIBE for this login are not listed" in plan.stdout, plan
