"""A loopback gateway in front of one broker that shows its clients no internal topic, as virtual clusters may do."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from contextlib import suppress

from kafka.protocol.metadata import MetadataResponse

from hangbench.kafka.go_between import GoBetween, exactly, hang_up

METADATA, UNKNOWN_TOPIC_OR_PARTITION = 3, 3


class HidingGateway(GoBetween):
    """Leaves `__transaction_state` and `__consumer_offsets` out of the metadata: asked by name, they do not exist."""

    def _serve(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(self.target)
        except OSError:
            hang_up(client)
            return
        if not self._keeps(broker):
            return
        requests: deque[tuple[int, int]] = deque()
        threading.Thread(target=_responses, args=(broker, client, requests), daemon=True).start()
        with suppress(OSError):
            while True:
                size = exactly(client, 4)
                frame = exactly(client, *struct.unpack(">i", size))
                requests.append(struct.unpack_from(">hh", frame))
                broker.sendall(size + frame)
        hang_up(broker)


def _responses(broker: socket.socket, client: socket.socket, requests: deque[tuple[int, int]]) -> None:
    with suppress(OSError):
        while True:
            frame = exactly(broker, *struct.unpack(">i", exactly(broker, 4)))
            api_key, version = requests.popleft()
            frame = _without_internal_topics(frame, version) if api_key == METADATA else frame
            client.sendall(struct.pack(">i", len(frame)) + frame)
    hang_up(client)


def _without_internal_topics(frame: bytes, version: int) -> bytes:
    response = MetadataResponse.decode(frame, version=version, header=True)
    by_name = len(response.topics) == 1
    for topic in response.topics:
        if topic.name.startswith("__"):
            topic.error_code, topic.partitions = UNKNOWN_TOPIC_OR_PARTITION, []
    response.topics = [topic for topic in response.topics if by_name or not topic.name.startswith("__")]
    return bytes(response.encode(header=True, framed=False))
