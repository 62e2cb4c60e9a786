"""A process that dies in mid-transaction: it writes, says so, and waits to be killed (`kill -9`).

    echo '{"bootstrap": ..., "transactional_id": ..., ...}' | python -m examples.workload.crashing

It prints `open` once the transaction is open with its records in the log, `failed` where brokers failed it. It ends by
itself, without a word to the coordinator, when its standard input is closed: so nothing is left of it where the workload
itself is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from examples.workload.producers import producer_configuration
from examples.workload.template import Decision, GaveUp, Record, Transactions, initialised, persist, write_all

OPEN: Final = "open"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the process is told."""

    bootstrap: str
    transactional_id: str
    timeout_ms: int
    give_up_s: float
    records: tuple[tuple[str, int, bytes], ...]
    """Topic, partition, value."""
    group: str = ""
    offsets: tuple[tuple[str, int, int], ...] = ()
    """Topic, partition, offset: sent to the transaction for the group."""


def crash(scene: Scene) -> bool:
    """Have a process open that transaction and kill it; False where brokers failed it, GaveUp where it cannot say so."""
    command = [sys.executable, "-m", "examples.workload.crashing"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line_of(scene))  # an argument has room for 128 kB
            process.stdin.flush()
            said = process.stdout.readline().strip()
            if said not in {OPEN, FAILED}:
                raise GaveUp("the process that was to crash ended without opening its transaction")
            return said == OPEN
        finally:
            process.kill()


def line_of(scene: Scene) -> str:
    """The scene as JSON; each byte of a value is one character."""
    return json.dumps(asdict(scene), default=lambda value: value.decode("latin-1")) + "\n"


def scene_of(line: str) -> Scene:
    """The scene that `line_of` wrote."""
    fields = json.loads(line)
    records = ((topic, partition, value.encode("latin-1")) for topic, partition, value in fields["records"])
    return Scene(**{**fields, "records": tuple(records)})


def main() -> int:
    """Reads the scene from standard input."""
    scene = scene_of(sys.stdin.readline())

    def write(producer: Producer) -> Decision:
        records = [Record(*record) for record in scene.records]
        write_all(producer, records, scene.give_up_s)
        if scene.offsets:
            group = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": scene.group}).consumer_group_metadata()
            offsets = [TopicPartition(*place) for place in scene.offsets]
            persist(lambda timeout_s: producer.send_offsets_to_transaction(offsets, group, timeout_s), scene.give_up_s)
        print(OPEN, flush=True)
        sys.stdin.read()
        os._exit(1)  # no farewell

    configuration = producer_configuration(scene.bootstrap, scene.transactional_id, timeout_ms=scene.timeout_ms)
    Transactions(lambda: initialised(configuration, scene.give_up_s), give_up_s=scene.give_up_s).run(write)
    print(FAILED, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
