"""Restores single defects in the fixed exporter: the checker must still find each, or its silence proves nothing.

Each takes away one obligation of docs/proof.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from exporter.commands import recover
from exporter.evaluation import evidence, memory, rules
from exporter.kafka import coordinator_proof, state_partitions
from exporter.kafka.cluster_client import ClusterClient, LatestMetadata
from exporter.kafka.collect import collector, complete, end_markers, replicas, suspects, verify
from exporter.kafka.collect.replicas import EVERYBODY_AGREES, Followers, OpenAtLeader
from exporter.kafka.topology import Topology
from exporter.kafka.visibility import ids
from exporter.recovery import carry_out
from exporter.recovery.audit import AuditLog
from exporter.recovery.plan import Plan
from exporter.snapshot import (
    ClusterIdentity,
    CoordinatorProof,
    EndMarkers,
    IdVisibility,
    Int64Column,
    Partitions,
    StateTopic,
    TransactionKeys,
    keys_of,
)
from tests.verification.model.cluster import java_hash
from tests.verification.model.directors import QUIET
from tests.verification.model.drive import replaced
from tests.verification.model.lies import LIES, Lie

_BY_ITEM = {lie.item: lie for lie in LIES}


SCHEDULES_MAX = 600
"""Each was found within 39 from its seed on; from seed 1 the memory's topic ids took 429, the visibility of ids 495."""


class Defect(NamedTuple):
    """One obligation that is taken away, and the search that must find what comes of it."""

    name: str
    patches: tuple[tuple[Any, str, Any], ...]
    """(module or class, name in it, its replacement)."""
    lie: Lie
    seed: int = 1
    """Of the first schedule."""


def _answers(value: Any) -> Callable[..., Any]:
    async def answer(*_arguments: Any, **_named: Any) -> Any:
        return value

    return answer


def _says(value: Any) -> Callable[..., Any]:
    return lambda *_arguments, **_named: value


def _keys_without_topic_ids(partitions: Partitions, *entries: Any) -> TransactionKeys:
    return keys_of(replace(partitions, topic_ids=()), *entries)


def _done_as_shown(_options: Any, means: recover.ClusterAccess, shown: Plan, _forced: Any, audit: AuditLog) -> int:
    partition = means.partition(shown.row.topic, shown.row.partition)
    return recover.reported(carry_out.carry_out(shown, partition, audit))


_end_markers = end_markers.end_markers


async def _hidden_topics_only_reported(
    client: ClusterClient, topology: Topology, suspects: Collection[OpenAtLeader]
) -> EndMarkers:
    """The search as it was: that topics may be hidden is reported, and does not refuse an abort."""
    found = await _end_markers(client, topology, suspects)
    hidden = tuple(each for each in found.unread if "topics may not be visible" in each[1])
    unread = tuple(each for each in found.unread if each not in hidden)
    return replace(found, unread=unread, lost=(*found.lost, *hidden))


_ask_followers = replicas.ask_followers


async def _only_the_first_follower(
    client: ClusterClient, topology: Topology, transactions: Collection[OpenAtLeader]
) -> Followers:
    """What the first follower of each partition says, where others disagree."""
    found = await _ask_followers(client, topology, transactions)

    def heard(views: Mapping[OpenAtLeader, tuple[int, ...]]) -> dict[OpenAtLeader, tuple[int, ...]]:
        first = {each: _followers(topology, each.partition)[:1] for each in views}
        kept = {each: tuple(broker for broker in brokers if broker in first[each]) for each, brokers in views.items()}
        return {each: brokers for each, brokers in kept.items() if brokers}

    return Followers(diverged=heard(found.diverged), silent=heard(found.silent), unaware=heard(found.unaware))


def _followers(topology: Topology, partition: tuple[str, int]) -> tuple[int, ...]:
    row = topology.row(*partition)
    return () if row is None else tuple(b for b in topology.replicas.of(row) if b != topology.leader[row])


def _hash_with_masked_sign(name: str, partitions: int) -> int:
    return (java_hash(name) & 0x7FFFFFFF) % partitions


def _hashes_with_masked_sign(ids: npt.NDArray[np.uint8], partitions: int) -> Int64Column:
    """The same of made-up ids."""
    return np.array([_hash_with_masked_sign(row.tobytes().decode(), partitions) for row in ids], dtype=np.int64)


_LIMIT = 1_000
_patterns = ids._patterns


def _patterns_up_to_a_limit(answer: Any) -> Any:
    patterns = _patterns(answer)
    return patterns if isinstance(patterns, IdVisibility) or len(patterns) <= _LIMIT else IdVisibility.ACLS_UNREAD


def _failure_with_absence_as_proof(proof: CoordinatorProof) -> str | None:
    """The failure of a proof as it was: no transaction log, no coordinator that could know the id."""
    if proof.state_topic not in {StateTopic.PRESENT, StateTopic.ABSENT}:
        return f"transaction_state_{proof.state_topic.value}"
    failures = [one.failure for one in proof.state_partitions if one.failure is not None]
    return failures[0] if failures else "coordinator_unanswered" if proof.listing_failures else None


def _other_id(known: ClusterIdentity, now: ClusterIdentity) -> str | None:
    return "another cluster id" if known.cluster_id and known.cluster_id != now.cluster_id else None


async def _unchecked(client: ClusterClient) -> tuple[Topology, str | None]:
    return await client.topology(), None


COMMITTED_WHERE_IT_IS_HIDDEN = Lie(
    "",
    "abort drops records whose COMMIT marker is on a topic that the operator cannot see",
    "abort of what was committed elsewhere",
    ("authorize", "set_topic_right(u, none)"),
    (("I3", "committed"),),
    ("set_topic_right(u, none)",),
)
ANOTHER_CLUSTER = Lie(
    "",
    "coverage is complete where the names lead to another cluster",
    "another cluster",
    ("lead_elsewhere",),
    (("I8", "another cluster"),),
    endings=(QUIET,),
)
DEFECTS: tuple[Defect, ...] = (
    Defect(
        "no leader is confirmed",
        ((verify, "unconfirmed", _answers({})),),
        _BY_ITEM["1"],
    ),
    Defect(
        "both reads are compared by their epoch alone",
        ((verify, "_KEPT_STILL", ("producer_epoch",)),),
        _BY_ITEM["2"],
    ),
    Defect(
        "followers are not asked",
        ((verify, "ask_followers", _answers(EVERYBODY_AGREES)),),
        _BY_ITEM["7"]._replace(kinds=(), needs=()),
    ),
    Defect(
        "a fence that cannot be written is not thought of",
        ((rules, "may_be_fenced", _says(False)),),
        _BY_ITEM["4"],
    ),
    Defect(
        "ids are taken to be visible",
        ((coordinator_proof, "id_visibility", _answers(IdVisibility.ALL)),),
        _BY_ITEM["6"],
        seed=480,
    ),
    Defect(
        "who keeps a transaction too long is not confirmed",
        ((complete, "unconfirmed_owners", _answers({})),),
        _BY_ITEM["1b"]._replace(kinds=("cut_off", "pass_time")),
    ),
    Defect(
        "the source of the metadata is not checked",
        ((collector, "checked_topology", _unchecked),),
        _BY_ITEM["1c"]._replace(situation="idle"),  # without a suspect, whose proof would find it out
    ),
    Defect(
        "topic ids are not compared",
        ((Topology, "topic_id_of", _says("")),),
        _BY_ITEM["3"]._replace(
            situation="late write without timestamps",  # otherwise the last timestamp distinguishes the two topics
            places=("DescribeProducers", "ListTransactions", "DescribeTransactions"),
        ),
    ),
    Defect(
        "what is remembered belongs to a topic's name, whenever its transaction began",
        ((memory, "keys_of", _keys_without_topic_ids), (evidence, "is_another_start", _says(False))),
        Lie(
            "",
            "what completes now is timed from what completed on the topic of that name before",
            "completing for some cycles",
            ("send_all_markers(a)", "recreate_topic(t)", "begin_and_write(a, t, 0)", "commit(a)"),
            (("I5", "hasty"),),
            places=("pause",),
        ),
        seed=420,
    ),
    Defect(
        "only the first follower is asked",
        ((verify, "ask_followers", _only_the_first_follower),),
        _BY_ITEM["7"]._replace(situation="lost marker, three replicas", kinds=(), needs=()),
    ),
    Defect(
        "the hash of a transactional id has its sign bit masked",
        (
            (state_partitions, "java_hash_partition", _hash_with_masked_sign),
            (state_partitions, "_partitions_of", _hashes_with_masked_sign),
        ),
        Lie(
            "",
            "a hang is not proved, because its id is looked for at another coordinator",
            "three partitions of the transaction log",
            (),
            (("I6", "hanging"),),
            endings=(QUIET,),
        ),
    ),
    Defect(
        "a transaction log that is not shown is a proof",
        ((CoordinatorProof, "failure", property(_failure_with_absence_as_proof)),),
        Lie(
            "",
            "a live transaction is called hanging behind a gateway that hides the transaction log",
            "behind a gateway",
            ("move_leader_slowly",),
            (("I1", "absent"),),
        ),
    ),
    Defect(
        "with more than 1,000 ACLs no id is taken to be visible",
        ((ids, "_patterns", _patterns_up_to_a_limit),),
        Lie("", "a hang is never proved", "many ACLs", (), (("I6", "hanging"),), endings=(QUIET,)),
    ),
    Defect(
        "brokers of another cluster are read",
        ((LatestMetadata, "check", _says(None)),),
        ANOTHER_CLUSTER,
    ),
    Defect(
        "a cluster is recognized by its cluster id alone",
        ((ClusterIdentity, "contradiction", _other_id),),
        ANOTHER_CLUSTER._replace(kinds=("lead_elsewhere(the same id)",)),
    ),
    Defect(
        "a search does not confirm the leaders of the logs that it has read",
        ((end_markers, "unconfirmed", _answers({})),),
        Lie(
            "",
            "abort drops records whose COMMIT marker is on a partition that was searched at its former leader",
            "abort of what was committed elsewhere",
            ("move_leader(t, 0)", "move_leader_untold(u, 0)", "expire_producers(1)", "cut_off(1)"),
            (("I3", "committed"),),
            ("move_leader(t, 0)", "move_leader_untold(u, 0)", "expire_producers(1)", "cut_off(1)"),
        ),
    ),
    Defect(
        "topics that are hidden are not asked for in a search",
        ((end_markers, "what_hides_topics", _answers("")),),
        COMMITTED_WHERE_IT_IS_HIDDEN,
    ),
    Defect(
        "topics that are hidden are reported, and refuse nothing",
        ((suspects, "end_markers", _hidden_topics_only_reported),),
        COMMITTED_WHERE_IT_IS_HIDDEN,
    ),
    Defect(
        "within the audit log's lock nothing is compared, judged or looked at",
        ((recover, "_judged_and_done", _done_as_shown), (carry_out, "_what_stands_against", _says(None))),
        _BY_ITEM["15"],
    ),
    Defect(
        "the last look before a marker is not heeded",
        ((carry_out, "_what_stands_against", _says(None)),),
        _BY_ITEM["15"]._replace(places=("DescribeProducers", "ListOffsets", "Metadata"), expected=(("I3", "live"),)),
    ),
)


@contextmanager
def put_back(defect: Defect) -> Iterator[None]:
    """The exporter with this defect."""
    with ExitStack() as undone:
        for owner, name, value in defect.patches:
            undone.enter_context(replaced(owner, name, value))
        yield
