"""Many transactional ids at work at once, and the truth about them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from confluent_kafka import KafkaException

from examples.workload.producers import TopicPartition
from examples.workload.rhythm import Rhythm
from examples.workload.sources import Input, Numbers, Source
from examples.workload.template import GaveUp
from examples.workload.truth import Ledger
from examples.workload.worker import Worker
from hangbench.kafka.wire import BrokerRefused


class Workload:
    """Producers on threads, each at its own rhythm: `Workload(bootstrap, topics).add("orders", Rhythm(hold_s=0.1))`.

    As a context it stops them on exit. `ledger` tells at any time what became of their transactions.
    """

    def __init__(self, bootstrap: str, topic_partitions: Sequence[TopicPartition], *, seed: int = 0) -> None:
        self._bootstrap = bootstrap
        self._topic_partitions = topic_partitions
        self._seed = seed
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.ledger = Ledger()
        self.failures: list[str] = []
        """Sentences of those that could not go on."""

    def add(self, transactional_id: str, rhythm: Rhythm, *, inputs: Sequence[TopicPartition] = ()) -> Workload:
        """Start one more; with `inputs` it copies these partitions, exactly once, and ends where they end."""
        source: Source
        if inputs:
            outputs, give_up_s = self._topic_partitions, rhythm.give_up_s
            source = Input(self._bootstrap, transactional_id, inputs, outputs, give_up_s=give_up_s)
        else:
            first = len(self._threads)
            source = Numbers(transactional_id, self._topic_partitions, size=rhythm.size, first_partition=first)
        worker = Worker(
            self._bootstrap,
            transactional_id,
            rhythm,
            source,
            self.ledger,
            self._stopping,
            seed=f"{self._seed}/{transactional_id}",
        )
        name = f"workload-{transactional_id}"
        thread = threading.Thread(target=self._run, args=(transactional_id, worker), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return self

    @property
    def is_done(self) -> bool:
        """True when all have come to their own end."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Have each end the transaction that it is in, and wait for it."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, transactional_id: str, worker: Worker) -> None:
        try:
            worker.run()
        except (GaveUp, BrokerRefused, KafkaException) as failure:
            self.failures.append(f"{transactional_id}: {failure}")
        except Exception as failure:  # noqa: BLE001 - whatever ends an id
            self.failures.append(f"{transactional_id}: {type(failure).__name__}: {failure}")
