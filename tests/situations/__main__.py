"""`python -m tests.situations`: play every situation on every version, and write the end of `docs/verdicts.md`."""

from __future__ import annotations

import datetime as dt
import sys
import time

from tests.situations.scene import score_ours
from tests.situations.stages import STAGES, VERSIONS
from tests.situations.table import DOCUMENT, document


def main() -> int:
    performances = {}
    wrong = []
    for version in VERSIONS:
        for stage in STAGES:
            began = time.monotonic()
            performance = performances[stage.name, version] = stage.perform(version)
            print(
                f"{version} {stage.name}: {len(performance)} situations, {time.monotonic() - began:.0f} s", flush=True
            )
            for name, scene in performance.items():
                if scene.failure is not None or not (score := score_ours(scene)).is_right:
                    wrong.append(f"{version} {name}: {scene.failure or score.words}")
    if wrong:
        print("\n".join(["nothing is written:", *wrong]), file=sys.stderr)
        return 1
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    before = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(document(before, performances, today.isoformat()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
