"""An archive of the classes that Spark's Java loads for the pipeline (class data sharing): each start takes a third less.

`make tools` makes it once for each virtual environment and Java, by a small run of the pipeline. Tests use it if it exists.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

SETTING: Final = "SPARK_SUBMIT_OPTS"
"""Options of the Java of a session, also in the processes that tests start."""
SILENT: Final = "-Xlog:disable"
"""Java would write to standard output which classes it cannot keep, and that an archive is not of its jars."""
TIMEOUT_S: Final = 600


def archive() -> Path | None:
    """Where it is, or will be; None without Java."""
    java = shutil.which("java")
    if java is None:
        return None
    real = Path(java).resolve()
    java_id = hashlib.sha256(f"{real} {real.stat().st_mtime_ns}".encode()).hexdigest()[:8]
    return Path(sys.prefix, f"spark-classes-{java_id}.jsa")


def use_archive() -> None:
    """From now on, in this process and in those that it starts."""
    made = archive()
    if made is not None and made.exists():
        os.environ.setdefault(SETTING, f"-XX:SharedArchiveFile={made} {SILENT}")


def make_archive() -> None:
    """Run the pipeline in a process of its own, whose Java writes the archive when it ends."""
    wanted = archive()
    if wanted is None or wanted.exists():
        return
    with tempfile.TemporaryDirectory(dir=wanted.parent, prefix=".making-") as making:
        made = Path(making, "made.jsa")
        environment = {**os.environ, SETTING: f"-XX:ArchiveClassesAtExit={made} {SILENT}"}
        command = [sys.executable, "-m", "tests.spark_classes", making]
        subprocess.run(command, env=environment, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
        if made.exists():
            made.rename(wanted)


def rehearse(folder: Path) -> None:
    """Make tables, baselines and report of two days, and wait until Spark's Java has ended."""
    from exporter.pipeline.jobs import Jobs  # noqa: PLC0415 - loads Spark
    from exporter.pipeline.session import open_session  # noqa: PLC0415
    from exporter.pipeline.tables import Tables  # noqa: PLC0415
    from tests.pipeline import cases  # noqa: PLC0415
    from tests.pipeline.test_jobs import DAY_MS, write_days  # noqa: PLC0415

    write_days(folder / "history", 2)
    session = open_session("local[2]", str(folder), memory="512m", is_short=True, partitions=2)
    tables = Tables(folder / "tables")
    Jobs(lambda: session, folder / "history", tables, (), 90 * DAY_MS, lambda: cases.NOW_MS, print).run()
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(TIMEOUT_S)


if __name__ == "__main__":
    rehearse(Path(sys.argv[1]))
