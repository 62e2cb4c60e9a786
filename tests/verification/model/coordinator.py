"""Models transaction coordinators: states in a replicated log, a memory that may be ahead of it, single markers."""

from __future__ import annotations

from exporter.kafka.errors import ErrorCode
from tests.verification.model.cluster import LAST_EPOCH, Broker, Client, Cluster, Coordinating, Txn, home_of
from tests.verification.model.image import NO_LEADER, STATE_TOPIC, TopicPartition
from tests.verification.model.logs import Batch, apply, marker_error

DECISIONS = {"commit": "PrepareCommit", "abort": "PrepareAbort"}
COMPLETED = {"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort"}


def home(cluster: Cluster, transactional_id: str) -> int:
    """The partition of the transaction log; -1 where the topic is not there."""
    topic = cluster.image.topics.get(STATE_TOPIC)
    return -1 if topic is None else home_of(transactional_id, len(topic.partitions))


def coordinator(cluster: Cluster, transactional_id: str) -> tuple[Broker, Coordinating] | None:
    """The true coordinator of an id, where it is loaded and can be reached by its peers."""
    index = home(cluster, transactional_id)
    partition = cluster.image.partition(STATE_TOPIC, index)
    if partition is None or partition.leader == NO_LEADER:
        return None
    broker = cluster.brokers[partition.leader]
    held = broker.coordinating.get(index)
    if held is None or held.loading or not cluster.leads(broker, STATE_TOPIC, index):
        return None
    return broker, held


def truth_of(cluster: Cluster, transactional_id: str) -> Txn | None:
    """The id's transaction: in its coordinator's memory, else what the next coordinator will load."""
    now = coordinator(cluster, transactional_id)
    if now is not None:
        return now[1].transactions.get(transactional_id)
    return cluster.transaction_log.get(home(cluster, transactional_id), {}).get(transactional_id)


def every_truth(cluster: Cluster) -> list[Txn]:
    """The transactions of all ids, as `truth_of` has them."""
    ids = {name for log in cluster.transaction_log.values() for name in log}
    return [txn for txn in (truth_of(cluster, name) for name in ids) if txn is not None]


def is_writable(cluster: Cluster, transactional_id: str) -> bool:
    """True when its coordinator can write to the transaction log."""
    index = home(cluster, transactional_id)
    return coordinator(cluster, transactional_id) is not None and cluster.is_writable(STATE_TOPIC, index)


def write(cluster: Cluster, txn: Txn) -> bool:
    """Have the coordinator write a state; False, and nothing changes, where it cannot."""
    now = coordinator(cluster, txn.transactional_id)
    index = home(cluster, txn.transactional_id)
    if now is None or not cluster.is_writable(STATE_TOPIC, index):
        return False
    cluster.transaction_log[index] = {**cluster.transaction_log[index], txn.transactional_id: txn}
    now[1].transactions[txn.transactional_id] = txn
    return True


def forget(cluster: Cluster, transactional_id: str) -> bool:
    """A tombstone: the id has expired."""
    now = coordinator(cluster, transactional_id)
    if now is None or not is_writable(cluster, transactional_id):
        return False
    index = home(cluster, transactional_id)
    log = cluster.transaction_log[index]
    cluster.transaction_log[index] = {name: txn for name, txn in log.items() if name != transactional_id}
    now[1].transactions.pop(transactional_id, None)
    return True


def add_partition(cluster: Cluster, transactional_id: str, partition: TopicPartition) -> bool:
    """AddPartitionsToTxn of the healthy client."""
    txn, client = truth_of(cluster, transactional_id), cluster.clients.get(transactional_id)
    if txn is None or client is None or txn.is_preparing or txn.fence_failed:
        return False
    if (txn.producer_id, txn.epoch) != (client.producer_id, client.epoch) or partition in txn.partitions:
        return False
    if txn.state == "Ongoing":
        begun = txn._replace(partitions=txn.partitions | {partition})
    else:
        begun = txn._replace(
            state="Ongoing",
            start_ms=_clock_of_coordinator(cluster, transactional_id),
            partitions=frozenset({partition}),
            serial=cluster.last_serial + 1,
        )
    if not write(cluster, begun):
        return False
    cluster.last_serial = max(cluster.last_serial, begun.serial)
    cluster.begun[begun.serial] = txn.producer_id
    last = (txn.producer_id, txn.epoch, begun.serial)
    cluster.clients[transactional_id] = client._replace(last=last, last_partitions=begun.partitions)
    return True


def _clock_of_coordinator(cluster: Cluster, transactional_id: str) -> int:
    now = coordinator(cluster, transactional_id)
    return cluster.now_ms + (0 if now is None else cluster.clock_skew_ms.get(now[0].id, 0))


def _note_decision(cluster: Cluster, serial: int, decision: str) -> None:
    cluster.outcomes[serial] = decision
    cluster.decided_ms.setdefault(serial, cluster.now_ms)


def end(cluster: Cluster, transactional_id: str, decision: str) -> bool:
    """EndTxn of the healthy client. TransactionVersion 2 bumps the epoch at Prepare, and returns it to the client.

    If the epochs are exhausted the client gets another producer id; markers still have the old one at the bumped epoch.
    """
    txn, client = truth_of(cluster, transactional_id), cluster.clients.get(transactional_id)
    if txn is None or client is None or txn.state != "Ongoing" or txn.fence_failed:
        return False
    if (txn.producer_id, txn.epoch) != (client.producer_id, client.epoch):
        return False
    bumps = cluster.kind.transaction_version >= 2
    rotates = bumps and txn.epoch >= LAST_EPOCH
    following = cluster.new_producer_id() if rotates else -1
    epoch = txn.epoch + bumps
    if not write(cluster, txn._replace(state=DECISIONS[decision], epoch=epoch, next_producer_id=following)):
        return False
    _note_decision(cluster, txn.serial, decision)
    following_client = client._replace(producer_id=following, epoch=0) if rotates else client._replace(epoch=epoch)
    cluster.clients[transactional_id] = following_client
    return True


def _completed(txn: Txn) -> Txn:
    completed = txn._replace(state=COMPLETED[txn.state], next_producer_id=-1)
    return completed if txn.next_producer_id < 0 else completed._replace(producer_id=txn.next_producer_id, epoch=0)


def fence(cluster: Cluster, transactional_id: str) -> bool:
    """Abort what is ongoing at the next epoch: a time-out, or InitProducerId of another instance."""
    txn = truth_of(cluster, transactional_id)
    now = coordinator(cluster, transactional_id)
    if txn is None or txn.state != "Ongoing" or now is None:
        return False
    epoch = txn.epoch if txn.fence_failed else txn.epoch + 1
    if write(cluster, txn._replace(state="PrepareAbort", epoch=epoch, fence_failed=False)):
        _note_decision(cluster, txn.serial, "abort")
        return True
    if cluster.kind.fence_may_fail and not txn.fence_failed:
        now[1].transactions[transactional_id] = txn._replace(epoch=epoch, fence_failed=True)
        return True
    return False


def init(cluster: Cluster, transactional_id: str, *, timeout_ms: int = 60_000, healthy: bool = True) -> ErrorCode:
    """InitProducerId without a producer id. `healthy`: a client takes over what is handed out."""
    if coordinator(cluster, transactional_id) is None:
        return ErrorCode.NOT_COORDINATOR
    txn = truth_of(cluster, transactional_id)
    if txn is not None and txn.is_active:
        if txn.state == "Ongoing" and not fence(cluster, transactional_id):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if txn is None:
        fresh = Txn(transactional_id, cluster.new_producer_id(), 0, timeout_ms=timeout_ms)
    else:
        is_used_up = txn.epoch >= LAST_EPOCH
        producer_id, epoch = (cluster.new_producer_id(), 0) if is_used_up else (txn.producer_id, txn.epoch + 1)
        fresh = txn._replace(state="Empty", producer_id=producer_id, epoch=epoch, start_ms=-1, partitions=frozenset())
    if not write(cluster, fresh):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if healthy:
        before = cluster.clients.get(transactional_id)
        last = (-1, -1, 0) if before is None else before.last
        partitions: frozenset[TopicPartition] = frozenset() if before is None else before.last_partitions
        cluster.clients[transactional_id] = Client(fresh.producer_id, fresh.epoch, last, partitions)
    return ErrorCode.NONE


def use_up_epochs(cluster: Cluster, transactional_id: str) -> bool:
    """Thousands of transactions later: the client has the last epoch of its producer id."""
    txn, client = truth_of(cluster, transactional_id), cluster.clients.get(transactional_id)
    if txn is None or client is None or txn.is_active or txn.epoch >= LAST_EPOCH:
        return False
    if not write(cluster, txn._replace(epoch=LAST_EPOCH, state="Empty", start_ms=-1, partitions=frozenset())):
        return False
    cluster.clients[transactional_id] = client._replace(producer_id=txn.producer_id, epoch=LAST_EPOCH)
    return True


def rotate(cluster: Cluster, transactional_id: str) -> bool:
    """Another producer id, as when the epochs are used up."""
    txn, client = truth_of(cluster, transactional_id), cluster.clients.get(transactional_id)
    if txn is None or client is None or txn.is_active or not is_writable(cluster, transactional_id):
        return False
    producer_id = cluster.new_producer_id()
    fresh = txn._replace(producer_id=producer_id, epoch=0, state="Empty", start_ms=-1, partitions=frozenset())
    if not write(cluster, fresh):
        return False
    cluster.clients[transactional_id] = client._replace(producer_id=producer_id, epoch=0)
    return True


def send_marker(cluster: Cluster, transactional_id: str, which: int = 0) -> bool:
    """Have the coordinator's marker written to one partition that is owed it; the last one completes the transaction."""
    now, txn = coordinator(cluster, transactional_id), truth_of(cluster, transactional_id)
    if now is None or txn is None or not txn.is_preparing or txn.gave_up:
        return False
    owed = sorted(txn.partitions)
    if owed:
        topic, index = owed[which % len(owed)]
        done = _write_marker(cluster, now, txn, topic, index)
        if done is None:
            return False
        txn = txn._replace(partitions=txn.partitions - {(topic, index)}) if done else txn._replace(gave_up=True)
        now[1].transactions[transactional_id] = txn
    if not txn.partitions and not txn.gave_up:
        write(cluster, _completed(txn))
    return True


def send_every_marker(cluster: Cluster, transactional_id: str) -> bool:
    """All markers that are owed and can be written; False where there was none."""
    sent = False
    while True:
        txn = truth_of(cluster, transactional_id)
        if txn is None or not txn.is_preparing or txn.gave_up:
            return sent
        ways = range(max(len(txn.partitions), 1))
        if not any(send_marker(cluster, transactional_id, which) for which in ways):
            return sent
        if truth_of(cluster, transactional_id) == txn:
            return sent  # all is written but the end of it
        sent = True


def _write_marker(cluster: Cluster, now: tuple[Broker, Coordinating], txn: Txn, topic: str, index: int) -> bool | None:
    """True if it was written or its partition is deleted, False if it was refused finally, None if it must wait."""
    if cluster.image.partition(topic, index) is None:
        return True
    if not cluster.is_writable(topic, index):
        return None
    replica = cluster.leader_replica(topic, index)
    assert replica is not None
    kind = "commit" if txn.state == "PrepareCommit" else "abort"
    # Markers of a fence or of TransactionVersion 2 carry the bumped epoch; only the latter demand it.
    version = cluster.kind.transaction_version
    error = marker_error(replica, txn.producer_id, txn.epoch, now[1].leader_epoch, version)
    if error is not ErrorCode.NONE:
        return False
    marker = Batch(
        replica.end, txn.producer_id, txn.epoch, -1, cluster.now_ms, kind, txn.serial, 100, now[1].leader_epoch
    )
    cluster.append(topic, index, marker)
    return True


def operators_marker(
    cluster: Cluster, broker: Broker, topic: str, index: int, marker: tuple[int, int, int, bool]
) -> ErrorCode:
    """WriteTxnMarkers of an operator, at the queried broker: (producer id, epoch, coordinator epoch, commit)."""
    producer_id, epoch, coordinator_epoch, commit = marker
    believed = broker.view.partition(topic, index)
    if believed is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if believed.leader != broker.id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica = broker.logs[broker.view.topics[topic].topic_id, index]
    error = marker_error(replica, producer_id, epoch, coordinator_epoch, 0)
    if error is not ErrorCode.NONE:
        return error
    kind = "commit" if commit else "abort"
    batch = Batch(replica.end, producer_id, epoch, -1, cluster.now_ms, kind, 0, 100, coordinator_epoch)
    if cluster.leads(broker, topic, index):
        cluster.append(topic, index, batch)
    else:
        apply(replica, batch)  # a leader of old, alone: its followers do not hear of it
        replica.is_astray = True
    return ErrorCode.NONE
