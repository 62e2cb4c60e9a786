"""Applies hand-made faults, one at a time, to a copy; each must fail a test: `python -m tests.verification.mutations`.

First the quick tests of its own room run, then all quick tests, then the tests on real brokers that the fault
names. A fault that nothing finds is printed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
QUICK: Final = "not (broker or spark or browser or programs or long or slow)"
TIMEOUT_S: Final = 900
OURS: Final = "tests/verification/test_programs.py::test_every_fault_can_be_made"
"""It reads the changed lines themselves, and would find every fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`old` occurs once in the file and becomes `new`."""

    path: str
    old: str
    new: str
    brokers: str = ""
    """Tests that start programs, for a fault that no quick test finds."""


FAULTS: Final = (
    # evaluation
    Fault(
        "evaluation/rules.py", "age_ms > transaction.timeout_ms + policy", "age_ms > transaction.timeout_ms - policy"
    ),
    Fault("evaluation/rules.py", "evidence.completing_ms > policy.stuck_after_ms", "evidence.completing_ms > 0"),
    Fault("evaluation/rules.py", "if evidence.second_read is SecondRead.UNREAD:", "if False:"),
    Fault(
        "evaluation/rules.py", "producer_epoch + 1 and not was_superseded", "producer_epoch + 2 and not was_superseded"
    ),
    Fault("evaluation/rules.py", "if evidence.silent_replicas and not", "if not evidence.silent_replicas and not"),
    Fault(
        "evaluation/rules.py",
        "_missing_on_ids(evidence: Evidence) -> InconclusiveReason | None:\n",
        "_missing_on_ids(evidence: Evidence) -> InconclusiveReason | None:\n    return None\n",
    ),
    Fault("evaluation/evaluate.py", "duration_ms > late_after_ms", "duration_ms >= late_after_ms"),
    Fault(
        "evaluation/evaluate.py", "lag = np.full(count, -1, dtype=np.int64)", "lag = np.full(count, 0, dtype=np.int64)"
    ),
    Fault(
        "evaluation/start.py",
        "verdict.is_hanging and evidence.last_timestamp_ms > 0",
        "verdict.is_hanging and evidence.last_timestamp_ms",
    ),
    Fault(
        "evaluation/verdicts.py", "STUCK_COMPLETING = VerdictKind.SUSPECT", "STUCK_COMPLETING = VerdictKind.ORDINARY"
    ),
    # kafka/messages and primitives
    Fault("primitives.py", "value |= (byte & 0x7F) << shift", "value |= (byte & 0x3F) << shift"),
    Fault(
        "primitives.py",
        '    if at + size > len(body):\n        raise MalformedBytesError("a string',
        '    if False:\n        raise MalformedBytesError("a string',
    ),
    Fault(
        "kafka/messages/describe_producers.py",
        "parts = [uvarint(len(partitions) + 1)]",
        "parts = [uvarint(len(partitions))]",
    ),
    Fault("kafka/messages/describe_producers.py", 'side="right") - 1', 'side="left") - 1'),
    Fault(
        "kafka/messages/versions.py",
        "common if max(self.lowest, lowest) <= common",
        "common if max(self.lowest, lowest) < common",
    ),
    # kafka/collect, leadership
    Fault("kafka/collect/verify.py", "if known != fresh and known and fresh", "if False"),
    Fault("kafka/collect/verify.py", "and int(leader[entries.row[i]]) not in led_by_strangers", ""),
    Fault(
        "kafka/collect/replicas.py",
        "known.last_sequence >= at_leader.last_sequence",
        "known.last_sequence > at_leader.last_sequence",
    ),
    Fault("kafka/collect/replicas.py", "if broker != topology.leader[row])", "if broker == topology.leader[row])"),
    Fault("kafka/leadership/quorum.py", "if now_ms - caught_up_ms <= CAUGHT_UP_WITHIN_MS:", "if True:"),
    Fault("kafka/leadership/confirm.py", "if epoch > self.leader_epoch or", "if"),
    Fault("kafka/leadership/confirm.py", "topic_id != self.topic_id:", "topic_id == self.topic_id:"),
    Fault(
        "kafka/markers.py",
        "write_txn_markers.decode, once=True",
        "write_txn_markers.decode",
        "tests/real_brokers/test_command_line.py",
    ),
    # transaction_log
    Fault("transaction_log/counts.py", "group.completed[event.outcome] += 1", "group.completed[event.outcome] += 2"),
    Fault(
        "transaction_log/ledger.py",
        "producer.log_partition not in read_to_end",
        "producer.log_partition in read_to_end",
    ),
    Fault(
        "patterns.py",
        "is_matched(match, transactional_id)), OTHER_GROUP)",
        "is_matched(match, transactional_id)), transactional_id)",
    ),
    # recovery
    Fault("recovery/plan.py", "    if not verdict.is_hanging:\n", "    if False:\n"),
    Fault(
        "recovery/plan.py",
        "row.coordinator_producer_epoch < row.producer_epoch:",
        "row.coordinator_producer_epoch > row.producer_epoch:",
    ),
    Fault("recovery/plan.py", '    "last_sequence",\n', ""),
    Fault("recovery/carry_out.py", "if look.topic_id != plan.row.topic_id:", "if False:"),
    Fault("recovery/carry_out.py", '    audit.step(\n        "sending",', '    str(\n        "sending",'),
    # publication, web
    Fault(
        "publication/metrics/partitions.py",
        "evaluation.partitions.duration_ms_max, divisor=1000",
        "evaluation.partitions.duration_ms_max, divisor=1",
    ),
    Fault("publication/metrics/partitions.py", "rows[lag[rows] >= 0]", "rows[lag[rows] > 0]"),
    Fault("publication/publication.py", "rows if self.options.transactional_ids else", "rows if True else"),
    Fault(
        "publication/zero_series.py", "busy = np.flatnonzero(series.values)", "busy = np.flatnonzero(series.values > 1)"
    ),
    Fault("web/auth.py", "if not matches or user not in users:", "if user not in users:"),
    Fault("web/auth.py", "return len(password) <= 72 and", "return len(password) <= 72 or"),
    Fault("web/negotiation.py", "return gzip > 0 and gzip >=", "return gzip >="),
    Fault("web/routes.py", "if self._reload is None:", "if False:"),
    # config, logs
    Fault("config/references.py", 'return self.read(file).rstrip("\\r\\n")', "return self.read(file)"),
    Fault(
        "config/kafka_section.py",
        '"kafka.sasl.password", values.TEXT, "The SASL password.", is_secret=True',
        '"kafka.sasl.password", values.TEXT, "The SASL password."',
    ),
    Fault(
        "config/settings.py",
        'if value["scan.deadline"] >= value["scan.interval"]:',
        'if value["scan.deadline"] > value["scan.interval"]:',
    ),
    Fault(
        "cli.py",
        'logging.getLogger("kafka").setLevel(max(quiet, logging.INFO))',
        'logging.getLogger("kafka").setLevel(quiet)',
        "tests/real_brokers/test_canary_handshake.py",
    ),
    Fault("log_format.py", "{value if _BARE.fullmatch(value) else json.dumps(value)}", "{value}"),
    # daemon, history, pipeline, fleet
    Fault(
        "daemon/reload.py", "if self._digest_all() == self._digests else", "if self._digest_all() != self._digests else"
    ),
    Fault("daemon/baseline_file.py", "if age_ms > self._age_ms_max:", "if False:"),
    Fault("daemon/timetable.py", "if entry.thread is not None and entry.thread.is_alive():", "if False:"),
    Fault(
        "history/writer.py",
        "            while self._waiting_bytes > WAITING_BYTES_MAX:\n",
        "            while False:\n",
    ),
    Fault("files.py", "beside: str, mode: int = 0o600", "beside: str, mode: int = 0o666"),
    Fault("files.py", "if len(read) > bytes_max:", "if len(read) < 0:"),
    Fault("pipeline/thresholds.py", "if samples < SAMPLES_MIN:", "if samples <= SAMPLES_MIN:"),
)


def found_by(fault: Fault, copy: Path) -> str | None:
    """The first failing test or set of tests; None where nothing failed."""
    first = Path(fault.path).parts[0]
    room = Path("tests") / (f"test_{first}" if first.endswith(".py") else first)
    rounds = [[str(room)]] if (copy / room).exists() else []
    rounds += [["tests"], *([fault.brokers.split()] if fault.brokers else [])]
    for paths in rounds:
        quick = ["-m", QUICK] if paths[0] in {str(room), "tests"} else ["-m", "not slow"]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "4", "--deselect", OURS, *quick, *paths]
        try:
            run = subprocess.run(
                command,
                cwd=copy,
                env={**os.environ, "PYTHONPATH": str(copy)},
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{' '.join(paths)}: the tests do not end"
        if run.returncode not in {0, 5}:
            failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "SUBFAILED"))]
            return f"{' '.join(paths)}: {failed[0] if failed else run.stdout[-300:]}"
    return None


def main() -> int:
    """Try all faults, or those whose path contains a word."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="faults whose path contains this")
    parser.add_argument("--first", type=int, default=1, metavar="NUMBER", help="the number of the first fault")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if options.only in fault.path]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Path(folder, "project")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv*", ".git", "build", ".*_cache", "__pycache__"))
        for number, fault in enumerate(chosen[options.first - 1 :], options.first):
            file = copy / "exporter" / fault.path
            text = file.read_text()
            file.write_text(text.replace(fault.old, fault.new))
            began = time.monotonic()
            found = found_by(fault, copy)
            file.write_text(text)
            missed += found is None
            took = f"{time.monotonic() - began:.0f} s"
            print(
                f"{number}/{len(chosen)} {fault.path} {fault.new.strip()[:60]!r}: {took}, {found or 'MISSED'}",
                flush=True,
            )
    tried = len(chosen) - options.first + 1
    print(f"{tried - missed} of {tried} faults were found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
