"""`python -m tests.verification.exactly_once`: clean transactions, brokers and clients killed all the while, and audits.

No client breaks exactly-once here, but the brokers may: an accusation is false unless Kafka's own DumpLogSegments shows the
same. The audit runs every few minutes as a user runs it, and at the end once more into tables of its own, in one go: both
must say the same. Ends with one line, and status 1 otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from deltalake import DeltaTable

from exporter.audit.verdicts import ACCUSATIONS, SETTLED_MS, AuditVerdict
from hangbench.kafka.cluster import KafkaCluster
from hangbench.kafka.maven import BrokersUnavailable
from hangbench.kafka.process import JavaProcess
from tests.verification.background import Background

SOURCE: Final = Path(__file__).with_name("CleanClients.java")
TOPIC: Final = "clean"
PARTITIONS: Final = 100
PROCESSES: Final = 2
FINDINGS_STATUS: Final = 3
PROPERTIES: Final[dict[str, str | int]] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    # What compaction removes is unknown to the audit in one go, and known to the one that has read it before.
    "transaction.state.log.segment.bytes": 1_000_000_000,
}
REPLICATED: Final[dict[str, str | int]] = {
    **PROPERTIES,
    # An acknowledged record must not be lost: with it a marker would be.
    "min.insync.replicas": 2,
    "transaction.state.log.min.isr": 2,
}


class Clients:
    """Processes of CleanClients.java, of which one is killed and begun again now and then."""

    def __init__(self, cluster: KafkaCluster, folder: Path, threads: int, seed: int) -> None:
        self._cluster, self._folder, self._threads, self._seed = cluster, folder, threads, seed
        self._begun = 0
        self._processes = [self._begin(number) for number in range(PROCESSES)]

    def _begin(self, number: int) -> JavaProcess:
        self._begun += 1
        given = (TOPIC, PARTITIONS, f"client-{number}", self._threads, self._seed + 1000 * self._begun)
        count = self._folder / f"ended-{self._begun}"
        command = self._cluster.tool_command(str(SOURCE), self._cluster.bootstrap, *map(str, given), str(count))
        return JavaProcess(command, self._folder, self._folder / "java.log")

    def kill_one(self, chance: random.Random) -> None:
        number = chance.randrange(PROCESSES)
        self._processes[number].kill()
        self._processes[number] = self._begin(number)

    def ended(self) -> int:
        """Transactions that have ended, as far as the clients know."""
        return sum(
            int(lines[-1])
            for path in self._folder.glob("ended-*")
            if (lines := path.read_text(encoding="utf-8").splitlines())
        )

    def close(self) -> None:
        for process in self._processes:
            process.kill()


class Kills(Background):
    """A broker or a client after the other is killed, on a thread of its own, with which the brokers end that it begins."""

    def __init__(self, cluster: KafkaCluster, clients: Clients, chance: random.Random, every_s: float) -> None:
        self._cluster, self._clients, self._chance, self._every_s = cluster, clients, chance, every_s
        self.brokers = self.clients = 0
        self._one = threading.Lock()
        super().__init__()

    def run(self) -> None:
        while not self.pause(self._chance.uniform(0.5, 1.5) * self._every_s):
            with self._one:
                self._kill()

    def _kill(self) -> None:
        if self._chance.random() < 0.5:
            self._clients.kill_one(self._chance)
            self.clients += 1
            return
        broker = self._chance.choice(self._cluster.brokers)
        broker.kill()
        self.pause(self._chance.uniform(0, 3))
        broker.launch()
        self.brokers += 1
        with contextlib.suppress(BrokersUnavailable):  # on a busy machine: the next kill waits too
            self._cluster.wait_until_serving()

    @contextmanager
    def none(self) -> Iterator[None]:
        """Within it nothing is killed."""
        with self._one:
            yield


class Auditor:
    """Audits as a user does, into tables of its own."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        folder.mkdir()
        self.tables = folder / "tables"
        self._common = [f"--tables={self.tables}", f"--bootstrap-server={bootstrap}", f"--temporary={folder}"]
        self.runs = 0

    def run(self) -> None:
        self._program("transaction-log")
        print(self._program("audit"), file=sys.stderr, flush=True)
        self.runs += 1

    def _program(self, job: str) -> str:
        command = [sys.executable, "-m", "exporter", "pipeline", job, "--master=local[2]", *self._common]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode not in (0, FINDINGS_STATUS):
            print(
                f"{job}: status {run.returncode}: {run.stderr.strip() or run.stdout.strip()}",
                file=sys.stderr,
                flush=True,
            )
        return run.stdout.strip()

    def found(self) -> Counter[tuple[Any, ...]]:
        """Rows of `audit_transactions`, and decisions on partitions that are as decided."""
        columns = (
            "verdict",
            "reason",
            "topic",
            "partition",
            "producer_id",
            "first_offset",
            "marker_offset",
            "start_ms",
        )
        table = DeltaTable(str(self.tables / "v1" / "audit_transactions")).to_pyarrow_table(columns=list(columns))
        rows = Counter(tuple(row[name] for name in columns) for row in table.to_pylist())
        for row in self._coverage():
            rows[AuditVerdict.AS_DECIDED.value, row["topic"], row["partition"]] += row["as_decided"]
        return +rows

    def accused(self) -> list[dict[str, Any]]:
        table = DeltaTable(str(self.tables / "v1" / "audit_transactions")).to_pyarrow_table()
        rows: list[dict[str, Any]] = table.to_pylist()
        return [row for row in rows if AuditVerdict(row["verdict"]) in ACCUSATIONS]

    def _coverage(self) -> Sequence[dict[str, Any]]:
        columns = ["topic", "partition", "as_decided"]
        table = DeltaTable(str(self.tables / "v1" / "audit_coverage")).to_pyarrow_table(columns=columns)
        rows: Sequence[dict[str, Any]] = table.to_pylist()
        return rows


def play(arguments: argparse.Namespace) -> int:
    chance = random.Random(arguments.seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="exactly-once-")))
        properties = PROPERTIES if arguments.nodes == 1 else REPLICATED
        cluster = stack.enter_context(KafkaCluster(arguments.kafka, nodes=arguments.nodes, properties=properties))
        if arguments.transaction_version == 0 and not arguments.kafka.startswith("3."):
            cluster.downgrade_transactions(0)
        cluster.topics.create(TOPIC, partitions=PARTITIONS)
        clients = Clients(cluster, folder, arguments.threads, arguments.seed)
        stack.callback(clients.close)
        kills = Kills(cluster, clients, chance, arguments.kill_every)
        stack.callback(kills.close)
        often, once = Auditor(cluster.bootstrap, folder / "often"), Auditor(cluster.bootstrap, folder / "once")
        began = time.monotonic()
        audit_at = began + arguments.audit_every
        while clients.ended() < arguments.transactions and time.monotonic() < began + 60 * arguments.minutes:
            time.sleep(1)
            if time.monotonic() > audit_at:
                often.run()
                audit_at = time.monotonic() + arguments.audit_every
        seconds = time.monotonic() - began
        with kills.none():
            clients.close()
            time.sleep(2 * SETTLED_MS / 1000)
            for auditor in (often, once):
                auditor.run()
            found, in_one_go = often.found(), once.found()
            accused = once.accused()
            logs = [(row, batches_of(cluster, row)) for row in accused]
        ended = clients.ended()
        false = [(row, own) for row, own in logs if not is_confirmed(row, own)]
    return _say(arguments, ended, seconds, kills, often.runs, found, in_one_go, len(accused) - len(false), false)


BATCH: Final = re.compile(
    r"^baseOffset: (\d+) .*? producerId: (-?\d+) producerEpoch: (-?\d+) .*? isTransactional: true isControl: (true|false) ",
    re.MULTILINE,
)


Batches: TypeAlias = tuple[tuple[int, int, bool], ...]


def batches_of(cluster: KafkaCluster, row: Mapping[str, Any]) -> Batches:
    """Offset, epoch and whether it is a marker, of each batch of the row's producer, as Kafka's own tool prints the log."""
    leader, *_ = cluster.topics.in_sync(row["topic"], row["partition"])
    folder = cluster.broker(leader).directory / "data" / f"{row['topic']}-{row['partition']}"
    files = ",".join(str(path) for path in sorted(folder.glob("*.log")))
    package = "kafka.tools" if cluster.version.startswith("3.") else "org.apache.kafka.tools"
    printed = cluster.tool(f"{package}.DumpLogSegments", "--files", files)
    return tuple(
        (int(offset), int(epoch), control == "true")
        for offset, producer_id, epoch, control in BATCH.findall(printed)
        if int(producer_id) == row["producer_id"]
    )


def is_confirmed(row: Mapping[str, Any], own: Batches) -> bool:
    """True if the log has the records and no marker with the epoch of their decision."""
    markers = [(offset, epoch) for offset, epoch, is_control in own if is_control]
    if row["verdict"] == AuditVerdict.MARKER_MISSING.value:
        if row["first_offset"] is not None:
            return (row["first_offset"], row["first_epoch"], False) in own and all(
                offset < row["first_offset"] for offset, _ in markers
            )
        return all(epoch != row["decision_marker_epoch"] for _, epoch in markers)
    return False


def _say(
    arguments: argparse.Namespace,
    ended: int,
    seconds: float,
    kills: Kills,
    runs: int,
    found: Counter[tuple[Any, ...]],
    in_one_go: Counter[tuple[Any, ...]],
    confirmed: int,
    false: Sequence[tuple[Mapping[str, Any], Batches]],
) -> int:
    counts = Counter[str]()
    for row, count in found.items():
        counts[row[0]] += count
    print(
        f"Kafka {arguments.kafka}, transaction.version {arguments.transaction_version}, {arguments.nodes} brokers, "
        f"seed {arguments.seed}: {ended:,} transactions ended in {seconds:.0f} s, {kills.brokers} brokers and "
        f"{kills.clients} clients killed, {runs} audits: {dict(counts)}; {confirmed} accusations confirmed, "
        f"{len(false)} false; in one go "
        f"{'equal' if found == in_one_go else f'different in {((found - in_one_go) | (in_one_go - found)).total()}'}"
    )
    for line in [*map(str, false), *map(str, (found - in_one_go) | (in_one_go - found))][:20]:
        print(line)
    return 1 if false or found != in_one_go else 0


def main() -> int:
    """Returns 1 if somebody was accused, or if both audits differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.exactly_once", description=__doc__)
    parser.add_argument("--transactions", type=int, default=500_000)
    parser.add_argument("--minutes", type=float, default=600.0, help="the longest time before the last audits")
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--transaction-version", type=int, default=2, choices=(0, 2))
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3))
    parser.add_argument("--threads", type=int, default=10, help="of each of two processes of clients")
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds")
    parser.add_argument("--audit-every", type=float, default=180.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    return play(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
