"""Takes away single steps of the proof (docs/proof.md): each is found by the search for it, or is redundant for a reason.

A redundant step is searched for as well: a find would show that the reason is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from exporter.evaluation import remembering
from exporter.kafka import coordinator_proof, coordinators
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect import complete, verify
from exporter.kafka.coordinators import Listing
from exporter.kafka.leadership import confirm
from exporter.kafka.leadership.confirm import Claim
from exporter.kafka.leadership.quorum import quorum_through
from exporter.kafka.state_partitions import StateLeaders
from exporter.recovery import carry_out
from exporter.recovery.partition import PartitionState
from exporter.recovery.plan import Plan
from exporter.snapshot import CoordinatorProof, Snapshot, StatePartitionProof
from tests.verification.model.defects import Defect
from tests.verification.model.lies import LIES, OWNED, Lie

_BY_ITEM = {lie.item: lie for lie in LIES}
_LOADING = ("move_leader_slowly", "go_on_loading")
_MOVES = (
    *(
        "move_leader",
        "move_leader_untold",
        "deliver_metadata",
        "cut_off",
        "reconnect",
        "reconnect_untold",
        "kill",
        "start",
    ),
    *("begin_and_write", "write", "add_partition", "commit", "send_all_markers", "rotate_producer_id", "authorize"),
    *("set_id_right", "set_topic_right", "give_everything", *_LOADING),
)
_partition_proofs = coordinator_proof._state_partition_proofs
_state_claims = coordinator_proof.state_claims
_remembered = remembering._remembered
_list_transactions = coordinators.list_transactions
_read_again = verify._read_again
_compared = verify._compared


def _first_probes_alone(
    before: StateLeaders, after: StateLeaders, first: tuple[str | None, ...], _last: tuple[str | None, ...]
) -> tuple[StatePartitionProof, ...]:
    return _partition_proofs(before, after, first, first)


def _last_probes_alone(
    before: StateLeaders, after: StateLeaders, _first: tuple[str | None, ...], last: tuple[str | None, ...]
) -> tuple[StatePartitionProof, ...]:
    return _partition_proofs(before, after, last, last)


def _claims_of_owners(proof: CoordinatorProof, producer_ids: Collection[int]) -> Iterator[Claim]:
    listed = {transaction.producer_id for transaction in proof.transactions}
    return _state_claims(proof, [producer_id for producer_id in producer_ids if producer_id in listed])


def _is_same_start(plan: Plan, look: PartitionState) -> bool:
    """The last look, by start offset alone."""
    return any(entry.current_txn_start_offset == plan.row.start_offset for entry in look.entries)


async def _nothing_hidden(*_arguments: Any) -> frozenset[str]:
    return frozenset()


async def _metadata_before_quorum(client: ClusterClient, claims: Collection[Claim]) -> Mapping[tuple[str, int], str]:
    """`unconfirmed`, which asks in the other order: the controller first."""
    if not claims:
        return {}
    views = await confirm.metadata_of_all(client, tuple(sorted({claim.topic for claim in claims})))
    leaders = sorted({claim.leader for claim in claims} & (client.brokers or {}).keys())
    quorum = dict(zip(leaders, await client.gather(quorum_through(client, leader) for leader in leaders), strict=True))
    if None in views.values():
        quorum = await confirm._caught_up(client, quorum)
    found = {c: confirm._against(c, views, quorum.get(c.leader), len(views)) for c in claims}
    return {(claim.topic, claim.partition): why for claim, why in found.items() if why is not None}


_listed_first: list[tuple[Listing, ...]] = []


async def _list_first(client: ClusterClient, brokers: Iterable[int]) -> tuple[Listing, ...]:
    """The first listing of a cycle, of every state, kept."""
    _listed_first[:] = [await _list_transactions(client, brokers, states=())]
    return _listed_first[0]


async def _list_as_before(*_arguments: Any, **_named: Any) -> tuple[Listing, ...]:
    return _listed_first[0]


def _from_the_cycles_beginning(evidence: Any, verdict: Any, snapshot: Snapshot, earliest: Any) -> Any:
    return _remembered(evidence, verdict, replace(snapshot, took_ms=0), earliest)


async def _unread_is_closed(client: Any, reading: Any, unverified: Any, current: Any) -> Any:
    """What could not be read again counts as ended."""
    found, places = await _read_again(client, reading, unverified, current)
    asked = [i for i, is_unverified in enumerate(unverified.tolist()) if is_unverified]
    return found, {**dict.fromkeys(asked), **places}


def _compared_at_any_leader(reading: Any, unverified: Any, read: Any, before: Any, after: Any) -> Any:
    """The comparison of both reads, whoever leads; another topic of the same name is still another one."""
    topics = {reading.partition(i)[0] for i, is_unverified in enumerate(unverified.tolist()) if is_unverified}
    are_read = before is not None and after is not None
    is_same = are_read and all(before.topic_id_of(topic) == after.topic_id_of(topic) for topic in topics)
    return _compared(reading, unverified, read, after if is_same else before, after)


NEEDED: tuple[Defect, ...] = (
    Defect(
        "the probes before the listing are ignored",
        ((coordinator_proof, "_state_partition_proofs", _last_probes_alone),),
        Lie("", "a coordinator that loads meanwhile is believed", "ongoing", _LOADING, OWNED),
        seed=340,
    ),
    Defect(
        "the first listing is believed",
        (
            (complete, "list_transactions", _list_first),
            (coordinator_proof, "list_transactions", _list_as_before),
        ),
        Lie("", "a coordinator that loads meanwhile is believed", "ongoing", _LOADING, OWNED),
    ),
    Defect(
        "only the state partitions of known ids are confirmed",
        ((verify, "state_claims", _claims_of_owners),),
        Lie(
            "",
            "a coordinator that is cut off does not know the newest producer id",
            "leaders move before anything is open",
            ("cut_off(2)", "rotate_producer_id(a)", "begin_and_write(a, t, 0)"),
            OWNED,
        ),
    ),
    Defect(
        "the last look before a marker compares the start offset alone",
        ((carry_out, "is_unchanged", _is_same_start),),
        _BY_ITEM["15"]._replace(places=("DescribeProducers", "ListOffsets", "Metadata")),
    ),
    Defect(
        "a topic that is hidden at the coordinator is ignored",
        ((coordinator_proof, "_hidden_topics", _nothing_hidden),),
        Lie(
            "",
            "the coordinator omits a partition whose leader has learned the right before it",
            "a right that one broker learns first",
            ("give_everything_to(1)",),
            OWNED,
        ),
    ),
    Defect(
        "the metadata are read before the controller is asked",
        ((verify, "unconfirmed", _metadata_before_quorum),),
        Lie(
            "",
            "a leader that reconnects in the middle is believed",
            "alone, cut off, and the topic deleted",
            ("reconnect(2)",),
            (("I1", "ended"),),
        ),
        seed=60,
    ),
    Defect(
        "completing is timed from the beginning of the cycle that has seen it first",
        ((remembering, "_remembered", _from_the_cycles_beginning),),
        Lie("", "stuck too soon", "decided within a cycle", ("pass_time(40000)", "commit(a)"), (("I5", "hasty"),)),
        seed=650,
    ),
    Defect(
        "a partition that could not be read again is taken for closed",
        ((verify, "_read_again", _unread_is_closed),),
        Lie(
            "",
            "a hang disappears, and coverage is complete",
            "late write",
            ("silence(1)", "speak(1)"),
            (("I4", "unseen"),),
        ),
    ),
)
"""Steps without which the model finds a wrong result."""

REDUNDANT: tuple[Defect, ...] = (
    Defect(
        "the probes after the listing are ignored",
        ((coordinator_proof, "_state_partition_proofs", _first_probes_alone),),
        Lie("", "a coordinator that has moved is believed", "leaders move", _MOVES, OWNED),
    ),
    Defect(
        "the leader may change between both reads",
        ((verify, "_compared", _compared_at_any_leader),),
        Lie("", "a leader that has changed is believed", "leaders move", _MOVES, OWNED),
    ),
)
"""Steps that others cover (README.md, redundant steps)."""
