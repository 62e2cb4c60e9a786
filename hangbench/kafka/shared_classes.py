"""An archive of a Kafka version's loaded classes (class data sharing): with it a broker starts in a third of the time.

It is made once for each version and Java, beside the jars, by a broker that is started and shut down in order.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hangbench.kafka.maven import kafka_jars, require_program

SILENT: Final = "-Xlog:disable"
"""Java would write to standard output that an archive is not of its jars, and go on without it."""

Rehearse = Callable[[str, Path], None]
"""(version, archive): starts a broker that writes its classes to the archive, and ends it in order."""


@functools.cache
def archive_of(version: str, rehearse: Rehearse) -> Path | None:
    """The archive; None where this Java makes none."""
    jars = kafka_jars(version)
    archive = jars.with_name(f"{jars.name}-{_java_id()}.jsa")
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".making-") as making:
            made = Path(making, "made.jsa")
            rehearse(version, made)
            if made.exists():
                made.rename(archive)
    return archive if archive.exists() else None


def _java_id() -> str:
    java = require_program("java", "openjdk-17-jre-headless")
    run = subprocess.run([java, "-version"], capture_output=True, check=True)
    return hashlib.sha256(run.stderr).hexdigest()[:8]
