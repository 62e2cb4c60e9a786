"""Runs the situations on real brokers, writes the tables of README.md, and the numbers in `docs/verdicts.md`.

With `--kafka` or `--stage` only a part is played, and nothing is written: the documents need all of them. With
`--without-read` the exporter may not read producers, and only what offsets prove is judged.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from pathlib import Path

from hangbench.detector import Detector
from hangbench.detectors import detector_of
from hangbench.play import Performance
from hangbench.situations.stages import STAGES, VERSIONS
from tests.verification.endings import status_without_writing
from tests.verification.situations.exporter import ExporterDetector
from tests.verification.situations.scoring import false_by_offsets, hangs_by_offsets, score_exporter, sights_of
from tests.verification.situations.table import DOCUMENT, TOOL, VERDICTS, document, with_summary

GUARDED = "guarded"
"""The stage whose users lack other grants that every proof by offsets needs: nothing is to be proved there."""


def main() -> int:
    """Status 1 where the exporter is wrong in a situation, or where a situation could not be played."""
    arguments = _parser().parse_args()
    exporter = ExporterDetector(may_read=not arguments.without_read, capsules=arguments.capsules)
    is_alone = arguments.without_read or arguments.capsules is not None
    detectors: list[Detector] = [exporter] if is_alone else [exporter, detector_of(TOOL)]
    performances = {}
    proved, hangs = 0, 0
    wrong = []
    for version in arguments.kafka or VERSIONS:
        for stage in STAGES:
            if arguments.stage and stage.name not in arguments.stage:
                continue
            began = time.monotonic()
            performance = performances[stage.name, version] = stage.perform(version, detectors)
            print(
                f"{version} {stage.name}: {len(performance)} situations, {time.monotonic() - began:.0f} s", flush=True
            )
            if arguments.without_read and stage.name == GUARDED:
                wrong += [
                    f"{version} {name}: {words}"
                    for name, s in performance.items()
                    for words in false_by_offsets(s, sights_of(s))
                ]
                continue
            if arguments.without_read:
                counts = [hangs_by_offsets(scene) for scene in performance.values() if sights_of(scene)]
                proved, hangs = proved + sum(c[0] for c in counts), hangs + sum(c[1] for c in counts)
                wrong += _wrong_by_offsets(version, performance)
                continue
            for name, scene in performance.items():
                if scene.failure is not None or not (score := score_exporter(scene)).is_right:
                    wrong.append(f"{version} {name}: {scene.failure or score.words}")
    if arguments.without_read:
        print(f"{proved} of {hangs} hangs are proved by offsets", flush=True)
    is_part = bool(arguments.kafka or arguments.stage or arguments.without_read or arguments.capsules)
    status = status_without_writing(wrong, is_part=is_part)
    if status is not None:
        return status
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    before = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(document(before, performances, today.isoformat()), encoding="utf-8")
    VERDICTS.write_text(with_summary(VERDICTS.read_text(encoding="utf-8"), performances), encoding="utf-8")
    return 0


def _wrong_by_offsets(version: str, performance: Performance) -> list[str]:
    wrong = []
    for name, scene in performance.items():
        proved, hangs = hangs_by_offsets(scene) if sights_of(scene) else (0, 0)
        missed = ["not proved"] * (hangs - proved)
        problems = [*filter(None, [scene.failure]), *false_by_offsets(scene, sights_of(scene)), *missed]
        wrong += [f"{version} {name}: {problem}" for problem in problems]
    return wrong


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.verification.situations", description=__doc__)
    parser.add_argument(
        "--kafka", action="append", choices=VERSIONS, help="play on this version of Kafka only; repeatable"
    )
    parser.add_argument(
        "--stage", action="append", choices=[stage.name for stage in STAGES], help="play this stage only; repeatable"
    )
    parser.add_argument("--without-read", action="store_true", help="leaders refuse to show producers")
    parser.add_argument("--capsules", type=Path, metavar="FOLDER", help="also write a capsule of each scan into FOLDER")
    return parser


if __name__ == "__main__":
    sys.exit(main())
