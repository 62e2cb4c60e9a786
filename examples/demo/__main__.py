"""`make demo`: a real Kafka, a workload on it, a transaction that nothing will ever close, and the exporter that finds it.

Runs until Ctrl-C or until its terminal is closed, or for DEMO_SECONDS seconds. A cycle is printed when its result differs
from the one before. Leaves no process; its last line says which files stay.
DEMO_PORT is the exporter's port, DEMO_KAFKA_PORT the broker's.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.demo.display import Cycle, shown
from examples.demo.progress import Progress
from examples.demo.stage import ABANDONED, GROUP, number_in, run_demo, stage, what_stays
from exporter.config.loading import environment_name

AUDIT_LOG = "the audit log of your aborts in ~/.local/state/kafka-transaction-exporter"


def main() -> int:
    """Run the demo; its exit status."""
    return run_demo(_run, end=lambda: f"ended: broker, workload and exporter are gone. {what_stays(AUDIT_LOG)}")


def _run(port: int, kafka_port: int | None) -> None:
    seconds = number_in("DEMO_SECONDS", math.inf, "a number of seconds")
    status = Progress(sys.stdout)
    last: Cycle | None = None
    is_said = False
    with (
        TemporaryDirectory(prefix="demo-") as folder,
        stage(port, kafka_port, {"state.file": f"{folder}/state.json"}) as on,
    ):
        for number, cycle, planted in on.cycles(seconds):
            status.clear()
            if last is None or cycle.result != last.result:
                print(shown(number, cycle), flush=True)
            if planted is not None and cycle.suspects and not is_said:
                print(_now_try(on.bootstrap, on.url, folder, planted.start_offset, port), flush=True)
                is_said = True
            if last is not None and last.suspects and not cycle.suspects:
                print(f"\n>>> cleared: no transaction hangs any more, and the group {GROUP} reads on\n", flush=True)
            last = cycle
            status.show(
                f"cycle {number}, nothing new: {len(cycle.longest_s)} partitions with open transactions; Ctrl-C ends"
            )


def _now_try(bootstrap: str, url: str, folder: str, start_offset: int, port: int) -> str:
    """What a newcomer does next, to paste in another terminal."""
    program = Path(sys.executable).parent / "ktx"
    place = f"--bootstrap-server {bootstrap} --topic orders --partition 1"
    settings = {"state.file": f"{folder}/state.json", "publish.listen_address": f"127.0.0.1:{port}"}
    settings |= {"kafka.bootstrap.servers": bootstrap, "publish.external_url": url}
    defined = " ".join(f"{environment_name(name)}={value}" for name, value in settings.items())
    return (
        "\n>>> now try, in another terminal (nobody owns this record: on your cluster ask its owner before an abort):\n"
        f"    {program} why --bootstrap-server {bootstrap} --group {GROUP}\n"
        f"    {program} find-hanging --bootstrap-server {bootstrap}\n"
        f"    {program} abort {place} --start-offset {start_offset} --dry-run\n"
        f"    {program} abort {place} --start-offset {start_offset}\n"
        "    this one line makes the commands of the status page, of an incident and of a runbook work here. This Kafka\n"
        "    has no logins: paste no other line first (Kafka's own tools, kafka-*.sh, are not in the demo):\n"
        f"    export PATH={program.parent}:$PATH {defined} "
        f"BOOTSTRAP={bootstrap} TOPIC=orders PARTITION=1 START_OFFSET={start_offset} TRANSACTIONAL_ID={ABANDONED}\n"
        "    after it, the alerts as rules for a Prometheus that scrapes this exporter: ktx rules > demo-rules.yaml\n"
        f"    status page: {url}/   incidents: {url}/incidents   metrics: {url}/metrics\n"
    )


if __name__ == "__main__":
    sys.exit(main())
