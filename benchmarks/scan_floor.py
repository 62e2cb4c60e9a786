"""The floor: requests whose bytes are ready, every answer received whole, nothing decoded. What is left is the broker's
and the kernel's own cost. `floor ADDRESS TOPIC...`, with `--whole` in one request instead of the exporter's chunks.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

import numpy as np

from benchmarks.listed import Listed, listed
from exporter.kafka.collect.scan_requests import chunks
from exporter.kafka.messages import describe_producers

PRODUCERS_AT_ONCE_MAX = 2**31 - 1


def frames(here: Listed, *, whole: bool) -> list[bytes]:
    """The exporter's requests for all partitions, or a single one."""
    topology = here.topology
    cut = [here.rows] if whole else list(chunks(here.rows, here.expected_producers))
    made = []
    for number, rows in enumerate(cut):
        partitions = {
            topology.topics[topic]: topology.partition[rows[topology.topic[rows] == topic]]
            for topic in np.unique(topology.topic[rows])
        }
        request = describe_producers.request(partitions)
        request.with_header(number, "bench")
        made.append(request.encode(framed=True, header=True))
    return made


def main(address: str, topics: list[str], *, whole: bool) -> None:
    """A round for each line."""
    here = listed(address, topics)
    requests = frames(here, whole=whole)
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    room = memoryview(bytearray(16_000_000))
    for _ in sys.stdin:
        began, received = time.perf_counter(), 0
        for request in requests:
            connection.sendall(request)
            received += receive(connection, room)
        wall_ms = (time.perf_counter() - began) * 1000
        sent = sum(map(len, requests))
        told = {"wall_ms": wall_ms, "entries": here.entries, "wire_bytes": sent + received, "requests": len(requests)}
        print(json.dumps(told), flush=True)


def receive(connection: socket.socket, room: memoryview) -> int:
    """Bytes of one answer."""
    received, size = 0, 4
    while received < size:
        received += connection.recv_into(room[received:])
        if received >= 4:
            size = 4 + struct.unpack_from(">i", room)[0]
    return received


if __name__ == "__main__":
    main(sys.argv[1], [argument for argument in sys.argv[2:] if argument != "--whole"], whole="--whole" in sys.argv)
