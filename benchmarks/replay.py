"""A broker that replays: whatever was asked before is answered with the same bytes, so that large clusters cost it little.

`replay TOPICS PARTITIONS PRODUCERS [OPEN]` listens on the loopback and prints its port. The first answer to a question is
made by the fake broker of the tests, which is held to a real broker's answers. It lives until its standard input ends.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import Any

from exporter.snapshot import STATE_TOPIC
from tests.kafka.fake_broker import API_VERSIONS, EVERYTHING, _api_versions
from tests.kafka.fake_model import APIS, Answers, Model, Partition, Producer, Transaction
from tests.kafka.loopback import Listener, framed, frames

STATE_PARTITIONS = 8


def model_of(topics: int, partitions: int, producers: int, open_transactions: int) -> Model:
    """`producers` idle ones on every partition; `open_transactions` that their coordinator owns, each on its own."""
    model = Model(topics={STATE_TOPIC: [Partition(1) for _ in range(STATE_PARTITIONS)]})
    idle = [Producer(1_000_000 + number) for number in range(producers)]
    names = [f"team-{number:04d}.some-topic" for number in range(topics)]
    model.topics |= {name: [Partition(1, producers=list(idle)) for _ in range(partitions)] for name in names}
    stride = max(topics * partitions // max(open_transactions, 1), 1)
    for number in range(open_transactions):
        topic, partition = names[number * stride // partitions], number * stride % partitions
        model.topics[topic][partition].producers.append(Producer(number, start_offset=5))
        model.transactions[f"application-{number}"] = Transaction(
            number, start_ms=time.time_ns() // 1_000_000, timeout_ms=3_600_000, partitions={(topic, partition)}
        )
    return model


class Replay:
    """Answers by what was asked, without the correlation id."""

    def __init__(self, model: Model) -> None:
        self._ready: dict[bytes, bytes] = {}
        self._ports: dict[int, int] = {}
        self._answers = Answers(model, self._ports, {})
        self.listener = Listener(self._talk)
        self._ports[1] = self.listener.port

    def _talk(self, connection: socket.socket) -> None:
        for frame in frames(connection):
            asked = frame[:4] + frame[8:]
            if asked not in self._ready:
                self._ready[asked] = self._answer(frame)
            connection.sendall(framed(frame[4:8] + self._ready[asked]))

    def _answer(self, frame: bytes) -> bytes:
        """Behind the correlation id."""
        api_key, version, _ = struct.unpack_from(">hhi", frame)
        answer: Any
        if api_key == API_VERSIONS:
            answer = _api_versions(version, EVERYTHING)
        else:
            _, _, request_class, answer_with = APIS[api_key]
            answer = answer_with(self._answers, 1, request_class.decode(frame, version=version, header=True), version)
        answer.with_header(correlation_id=0)
        return bytes(answer.encode(header=True, framed=True))[8:]


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    with Replay(model_of(*numbers[:3], *(numbers[3:] or [0]))).listener as listener:
        print(listener.port, flush=True)
        sys.stdin.read()
