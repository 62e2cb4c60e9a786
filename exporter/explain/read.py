"""Reads what explains one transaction: both logs, and the settings that would have prevented it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from exporter.evaluation.verdicts import Verdict
from exporter.explain.facts import Facts
from exporter.incidents.incident import Suspect
from exporter.kafka.cluster_client import ClusterClient
from exporter.kafka.collect.log_reader import LogBudget
from exporter.kafka.collect.origin import read_partition_logs
from exporter.kafka.collect.protection import read_protection
from exporter.kafka.collect.state_history import read_state_history
from exporter.snapshot import TransactionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionToExplain:
    """The transaction to explain."""

    opened: TransactionKey
    verdict: Verdict | None
    """Verdict; None if the transaction is not open any more."""
    transactional_id: str | None = None
    is_remembered: bool = False
    """True if an incident, not a coordinator, names the transactional id."""

    @classmethod
    def of(cls, suspect: Suspect, verdict: Verdict | None) -> TransactionToExplain:
        """Returns the transaction of an incident's suspect."""
        name = suspect.transactional_id
        return cls(opened=suspect.key, verdict=verdict, transactional_id=name, is_remembered=name is not None)


async def read_facts(client: ClusterClient, wanted: TransactionToExplain, budget: LogBudget) -> Facts:
    """Raises BrokerFault if the partition has no leader, ClusterUnavailableError if no broker responds."""
    opened = wanted.opened
    topology = await client.topology()
    logs = await read_partition_logs(client, topology, opened, budget)
    around_ms = next((one.first_timestamp_ms for one in logs.own.batches if one.offset >= opened.start_offset), -1)
    state = await read_state_history(
        client,
        topology,
        producer_id=opened.producer_id,
        transactional_id=wanted.transactional_id,
        around_ms=around_ms if around_ms >= 0 else int(time.time() * 1000),
        budget=budget,
    )
    # Once more: a leader that was elected while the log was read is no stranger.
    _, leader_epoch = (await client.topology((opened.topic,))).leader_of(opened.topic, opened.partition)
    own = replace(logs.own, leader_epoch=max(logs.own.leader_epoch, leader_epoch))
    return Facts(
        opened=opened,
        verdict=wanted.verdict,
        logs=replace(logs, own=own),
        state=state,
        protection=await read_protection(client, topology),
        known_id=wanted.transactional_id if wanted.is_remembered else None,
    )
