"""How long what recovery rests on can change unseen: from its last read to the end of its write, on real brokers.

    python -m benchmarks.recovery_windows [version ...]

Three runs of twenty aborts and twenty terminations each, on clusters of one and of three brokers. Each window begins when
the request of the last read is sent and ends when the response to the write has come, so that it is too long rather than
too short. The figures are in docs/decisions/0005-many-aborts.md.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from exporter.commands import force_terminate
from exporter.kafka.cluster_client import ClusterClient
from hangbench.kafka.cluster import KafkaCluster, MeasuredCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED
from hangbench.situations.steps import Client
from tests.real_brokers.attacking import aborts, context_of, settings_of

RUNS: Final = 3
TIMES: Final = 20
WINDOWS: Final = (
    ("last read of the partition to marker", "DescribeProducers", "WriteTxnMarkers"),
    ("leader confirmed to marker", "DescribeQuorum", "WriteTxnMarkers"),
    ("last look at the coordinator to fence", "DescribeTransactions", "InitProducerId"),
    ("coordinator confirmed to fence", "DescribeQuorum", "InitProducerId"),
)

Sent = tuple[str, float, float]
"""(API, when it was sent, when its response was read)."""


@contextmanager
def watched() -> Iterator[list[Sent]]:
    """Every request of this process, in the order of their responses."""
    sent: list[Sent] = []
    ask = ClusterClient.request

    async def timed(self: ClusterClient, broker: int, api: str, *arguments: Any, **more: Any) -> Any:
        began = time.perf_counter()
        try:
            return await ask(self, broker, api, *arguments, **more)
        finally:
            sent.append((api, began, time.perf_counter()))

    ClusterClient.request = timed  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        ClusterClient.request = ask  # type: ignore[method-assign]


def window_ms(sent: list[Sent], read: str, write: str) -> float | None:
    """From the last `read` before the first `write` until the response to that; None where it was not written."""
    written = next((number for number, (api, _, _) in enumerate(sent) if api == write), None)
    if written is None:
        return None
    began = max(began for api, began, _ in sent[:written] if api == read)
    return (sent[written][2] - began) * 1000


def measured(cluster: KafkaCluster, name: str, folder: Path) -> dict[str, list[float]]:
    """The windows of one run."""
    topic = cluster.topics.create(name, partitions=TIMES)
    settings = settings_of(cluster.bootstrap)
    commands: list[Callable[[], int]] = []
    for partition in range(TIMES):
        Client.begin(cluster.bootstrap, f"{name}-hang-{partition}").write(topic, partition)
        live = Client.begin(cluster.bootstrap, f"{name}-live-{partition}")
        live.open(topic, partition)
        named = ("force-terminate", "--transactional-id", live.transactional_id, "--yes")
        commands.append(lambda named=named: force_terminate.run(context_of(folder, *named), settings))  # type: ignore[misc]
        commands.append(lambda partition=partition: aborts(cluster.bootstrap, folder, topic, partition))  # type: ignore[misc]
    found: dict[str, list[float]] = {what: [] for what, _, _ in WINDOWS}
    for command in commands:
        with watched() as sent:
            assert command() == 0
        for what, read, write in WINDOWS:
            took_ms = window_ms(sent, read, write)
            if took_ms is not None:
                found[what].append(took_ms)
    return found


def main(versions: list[str]) -> None:
    for version, nodes in itertools.product(versions, (1, 3)):
        with (
            TemporaryDirectory() as folder,
            MeasuredCluster(version, nodes=nodes, properties=HANGS_CAN_BE_PLANTED) as cluster,
        ):
            Client.begin(cluster.bootstrap, "makes-the-state-topic")
            runs = [measured(cluster, f"run-{number}", Path(folder)) for number in range(RUNS)]
        for what, _, _ in WINDOWS:
            every = [took for run in runs for took in run[what]]
            figures = f"{min(every):.1f} {statistics.median(every):.1f} {max(every):.1f} ms"
            print(f"{version}, {nodes} broker(s), {what}: {figures} of {len(every)}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:] or ["4.3.1", "3.9.1"])
