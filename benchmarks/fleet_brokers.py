"""Replaying brokers of many clusters in one process. `fleet_brokers PARTITIONS...` prints their ports.

Each cluster is one broker with topics of at most 100 partitions, one idle producer on each, and nothing open.
They live until the standard input ends.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from benchmarks.replay import Replay, model_of

TOPIC_PARTITIONS = 100


def replay_of(partitions: int) -> Replay:
    topics = -(-partitions // TOPIC_PARTITIONS)
    return Replay(model_of(topics, -(-partitions // topics), 1, 0))


if __name__ == "__main__":
    with ExitStack() as stack:
        listeners = [stack.enter_context(replay_of(int(word)).listener) for word in sys.argv[1:]]
        print(*(listener.port for listener in listeners), flush=True)
        sys.stdin.read()
