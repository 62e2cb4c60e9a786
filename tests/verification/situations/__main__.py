"""Runs the situations on real brokers, writes the tables of README.md, and the numbers in `docs/verdicts.md`.

With `--kafka` or `--stage` only a part is played, and nothing is written: the documents need all of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time

from tests.verification.endings import status_without_writing
from tests.verification.situations.scene import score_ours
from tests.verification.situations.stages import STAGES, VERSIONS
from tests.verification.situations.table import DOCUMENT, VERDICTS, document, with_summary


def main() -> int:
    """Status 1 where the exporter is wrong in a situation, or where a situation could not be played."""
    arguments = _parser().parse_args()
    performances = {}
    wrong = []
    for version in arguments.kafka or VERSIONS:
        for stage in STAGES:
            if arguments.stage and stage.name not in arguments.stage:
                continue
            began = time.monotonic()
            performance = performances[stage.name, version] = stage.perform(version)
            print(
                f"{version} {stage.name}: {len(performance)} situations, {time.monotonic() - began:.0f} s", flush=True
            )
            for name, scene in performance.items():
                if scene.failure is not None or not (score := score_ours(scene)).is_right:
                    wrong.append(f"{version} {name}: {scene.failure or score.words}")
    status = status_without_writing(wrong, is_part=bool(arguments.kafka or arguments.stage))
    if status is not None:
        return status
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    before = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(document(before, performances, today.isoformat()), encoding="utf-8")
    VERDICTS.write_text(with_summary(VERDICTS.read_text(encoding="utf-8"), performances), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.verification.situations", description=__doc__)
    parser.add_argument(
        "--kafka", action="append", choices=VERSIONS, help="play on this version of Kafka only; repeatable"
    )
    parser.add_argument(
        "--stage", action="append", choices=[stage.name for stage in STAGES], help="play this stage only; repeatable"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
