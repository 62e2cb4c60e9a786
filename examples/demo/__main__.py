"""`make demo`: a real Kafka, a workload on it, a transaction that nothing will ever close, and the exporter that finds it.

Runs until Ctrl-C or until its terminal is closed, or for DEMO_SECONDS seconds. A cycle is printed when its result differs
from the one before. Leaves no process; its last line says which files stay.
DEMO_PORT is the exporter's port, DEMO_KAFKA_PORT the broker's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from examples.demo.display import Cycle, shown, where_the_incident_is
from examples.demo.progress import Progress
from examples.demo.stage import ABANDONED, GROUP, number_in, run_demo, say, stage, what_stays
from exporter.config.loading import environment_name

AUDIT_LOG = "the audit log of your aborts in ~/.local/state/kafka-transaction-exporter"


def main() -> int:
    """Run the demo; its exit status."""
    return run_demo(_run, end=lambda: f"ended: broker, workload and exporter are gone. {what_stays(AUDIT_LOG)}")


def _run(port: int, kafka_port: int | None) -> None:
    seconds = number_in("DEMO_SECONDS", math.inf, "a number of seconds", float)
    status = Progress(sys.stdout)
    last: Cycle | None = None
    incident = ""
    with (
        TemporaryDirectory(prefix="demo-") as folder,
        stage(port, kafka_port, {"state.file": f"{folder}/state.json"}) as on,
    ):
        for number, cycle, planted in on.cycles(seconds):
            status.clear()
            if last is None or cycle.result != last.result:
                say(shown(number, cycle))
            if planted is not None and _hangs(cycle) and not incident:
                for line in _now_try(on.bootstrap, on.url, folder, planted.start_offset, port):
                    (print if line.startswith(" ") else say)(line)  # a command stays on one line
                incident = where_the_incident_is(on.url, "orders", 1)
            if last is not None and _hangs(last) and not _hangs(cycle):
                say(
                    f"\n>>> cleared: this transaction hangs no more, and the group {GROUP} is no longer behind it; the "
                    f"incident with its time line, until Ctrl-C ends the demo: {incident}\n"
                )
            last = cycle
            status.show(
                f"cycle {number}, nothing new: {len(cycle.longest_s)} partitions with open transactions; Ctrl-C ends"
            )


def _hangs(cycle: Cycle) -> bool:
    """True while the planted hang is open; on a busy machine a transaction of the workload may be a suspect for a cycle."""
    return any(repr(ABANDONED) in suspect for suspect in cycle.suspects)


def _now_try(bootstrap: str, url: str, folder: str, start_offset: int, port: int) -> Iterator[str]:
    """Yields what a newcomer pastes next in another terminal: one line first, after which all printed commands run."""
    place = f"--topic orders --partition 1 --start-offset {start_offset}"
    settings = {"state.file": f"{folder}/state.json", "publish.listen_address": f"127.0.0.1:{port}"}
    settings |= {"kafka.bootstrap.servers": bootstrap, "publish.external_url": url}
    defined = " ".join(f"{environment_name(name)}={quote(value)}" for name, value in settings.items())
    yield (
        "\n>>> now try. In another terminal paste this line first: after it the commands below run, and those of the "
        "status page, of an incident and of a runbook:"
    )
    yield (
        f"    export PATH={quote(str(Path(sys.executable).parent))}:$PATH {defined} "
        f"BOOTSTRAP={bootstrap} TOPIC=orders PARTITION=1 START_OFFSET={start_offset} TRANSACTIONAL_ID={ABANDONED} "
        f"GROUP={GROUP}"
    )
    yield "then (nobody owns this record: on your cluster ask its owner before an abort):"
    for command in (f"why --group {GROUP}", "find-hanging", f"abort {place} --dry-run", f"abort {place}"):
        yield f"    ktx {command}"
    yield (
        "This Kafka has no logins: leave out the login line of a runbook. Kafka's own tools, kafka-*.sh, are not in "
        "the demo."
    )
    yield "The alerts, as rules for a Prometheus that scrapes this exporter:"
    yield "    ktx rules > demo-rules.yaml"
    yield f"status page: {url}/   incidents: {url}/incidents   metrics: {url}/metrics\n"


if __name__ == "__main__":
    sys.exit(main())
