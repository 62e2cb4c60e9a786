"""`python -m examples.workload`: transactional producers with the troubles that they are told to have, and the truth."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from types import FrameType
from typing import Final

from examples.workload.producers import TopicPartition
from examples.workload.rhythm import Rhythm
from examples.workload.workload import Workload
from hangbench.kafka.wire import LEADER_ERRORS, BrokerRefused, leaders, until_answered

UNKNOWN_TOPIC: Final = 3
METADATA_TIMEOUT_S: Final = 10.0
LOOK_EVERY_S: Final = 0.1

DESCRIPTION: Final = """
Transactional producers on a cluster without TLS and SASL, each id on a thread of its own. What a transaction comes to is
chosen by its number and by seed: the same options do the same again. Ends after --transactions or --seconds, with
--transform at the end of the input, and on SIGINT or SIGTERM; each id first ends the transaction that it is in.
"""
EPILOG: Final = """
At the end, one JSON object: {"total": COUNTS, "transactional_ids": {ID: COUNTS}, "failures": [SENTENCE]}. COUNTS are
begun = committed + aborted + timed_out + fenced + unresolved, as the coordinators have it; crashed, left open by a kill
and counted by their end as well; records, those committed. Exit status 1 where an id could not go on.
"""


class WorkloadRefused(Exception):
    """What is in the way, in one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Run it; its exit status."""
    options = build_parser().parse_args(arguments)
    asked = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        workload = start(options)
    except WorkloadRefused as refusal:
        print(f"workload: {refusal}", file=sys.stderr)
        return 1
    until = time.monotonic() + (float("inf") if options.seconds is None else options.seconds)
    while not (workload.is_done or time.monotonic() > until):
        if asked.wait(LOOK_EVERY_S):
            break
    workload.stop()
    for failure in workload.failures:
        print(f"workload: {failure}", file=sys.stderr)
    counts = {name: asdict(count) for name, count in workload.ledger.counts().items()}
    truth = {"total": asdict(workload.ledger.total()), "transactional_ids": counts, "failures": workload.failures}
    print(json.dumps(truth))
    return 1 if workload.failures else 0


def start(options: argparse.Namespace) -> Workload:
    """All ids at work."""
    topic_partitions = partitions_of(options.bootstrap_server, options.topic)
    inputs = partitions_of(options.bootstrap_server, options.transform) if options.transform else []
    if inputs and options.ids > len(inputs):
        raise WorkloadRefused(
            f"--ids {options.ids} is more than the {len(inputs)} partitions of {options.transform}: each id reads its own"
        )
    workload = Workload(options.bootstrap_server, topic_partitions, seed=options.seed)
    rhythm = rhythm_of(options)
    for number in range(options.ids):
        workload.add(f"{options.id_prefix}-{number}", rhythm, inputs=inputs[number :: options.ids])
    return workload


def partitions_of(bootstrap: str, topic: str) -> list[TopicPartition]:
    try:
        found = until_answered(
            lambda: leaders(bootstrap, topic), LEADER_ERRORS - {UNKNOWN_TOPIC}, timeout_s=METADATA_TIMEOUT_S
        )
    except BrokerRefused as refusal:
        if refusal.error_code == UNKNOWN_TOPIC:
            raise WorkloadRefused(f"topic {topic} does not exist: create it first") from refusal
        raise WorkloadRefused(f"topic {topic}: {refusal}") from refusal
    except ValueError as failure:
        raise WorkloadRefused(f"--bootstrap-server must be HOST:PORT[,...], not {bootstrap}") from failure
    except OSError as failure:
        raise WorkloadRefused(f"no broker answers at {bootstrap}: {failure}") from failure
    return [(topic, partition) for partition in sorted(found)]


def rhythm_of(options: argparse.Namespace) -> Rhythm:
    return Rhythm(
        records=options.records,
        size=options.size,
        hold_s=options.hold_ms / 1000,
        per_second=options.rate,
        abort_share=options.abort_share,
        stall_every=options.stall_every,
        zombie_every=options.zombie_every,
        crash_every=options.crash_every,
        after_crash=options.after_crash,
        timeout_ms=options.timeout_ms,
        stall_timeout_ms=options.stall_timeout_ms,
        transactions=options.transactions,
        give_up_s=options.give_up,
    )


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.workload", description=DESCRIPTION, epilog=EPILOG)
    usual = Rhythm()
    work = parser.add_argument_group("what is written")
    work.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT[,...]")
    work.add_argument("--topic", required=True, help="where to; it must exist")
    work.add_argument(
        "--transform",
        metavar="TOPIC",
        help="copy the values of this topic exactly once, offsets in the transaction; not numbered records",
    )
    work.add_argument("--ids", type=_positive, default=1, metavar="N", help="transactional ids (default: 1)")
    work.add_argument(
        "--id-prefix", default="workload", metavar="NAME", help="ids are NAME-0, NAME-1 ... (default: workload)"
    )
    _number(work, "--records", _positive, usual.records, "records of a transaction")
    _number(work, "--size", _natural, usual.size, "bytes of a record at least")
    pace = parser.add_argument_group("pace and end")
    _number(pace, "--rate", _amount, usual.per_second, "transactions of each id in a second; 0: as many as it can")
    _number(pace, "--hold-ms", _natural, 0, "how long each stays open with all its records written")
    pace.add_argument("--transactions", type=_positive, metavar="N", help="begun by each id, then it ends")
    pace.add_argument("--seconds", type=_amount, metavar="S", help="end after so long")
    _number(pace, "--give-up", _amount, usual.give_up_s, "seconds for which brokers may be away")
    trouble = parser.add_argument_group("trouble", "where two fall on one transaction, the first in this order happens")
    _number(
        trouble, "--stall-every", _natural, 0, "each Nth transaction of an id is left to its coordinator's time-out"
    )
    _number(trouble, "--zombie-every", _natural, 0, "... is fenced by a newer producer of its id, then tries to commit")
    _number(trouble, "--crash-every", _natural, 0, "... is open when its process is killed by SIGKILL")
    _number(
        trouble, "--abort-share", _share, usual.abort_share, "of the others: aborted by the application, from 0 to 1"
    )
    trouble.add_argument(
        "--after-crash",
        choices=["initialise", "wait"],
        default=usual.after_crash,
        help="the id is initialised again at once (a fence), or left to the time-out (default: initialise)",
    )
    _number(trouble, "--timeout-ms", _timeout, usual.timeout_ms, "transaction.timeout.ms")
    _number(trouble, "--stall-timeout-ms", _timeout, usual.stall_timeout_ms, "the same for what is to be timed out")
    _number(trouble, "--seed", int, 0, "of what is chosen by chance")
    return parser


def _number(group: argparse._ArgumentGroup, flag: str, kind: object, default: float, says: str) -> None:
    group.add_argument(flag, type=kind, default=default, metavar="N", help=f"{says} (default: {default:g})")  # type: ignore[arg-type]


def _natural(text: str) -> int:
    return _at_least(0, int(text))


def _positive(text: str) -> int:
    return _at_least(1, int(text))


def _timeout(text: str) -> int:
    return _at_least(1_000, int(text))  # librdkafka takes no less


def _at_least(least: int, number: int) -> int:
    if number < least:
        raise argparse.ArgumentTypeError(f"{number} is less than {least}")
    return number


def _amount(text: str) -> float:
    amount = float(text)
    if not 0 <= amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return amount


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return share


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
