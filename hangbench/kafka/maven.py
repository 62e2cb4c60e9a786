"""Jars resolved by Maven: one folder for each set, made once, kept outside the tree."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

RESOLVE_TIMEOUT_S: Final = 600
SUPPORTED: Final = ("4.3.1", "3.9.1", "4.1.1", "3.3.2", "3.0.2")
"""Versions of Kafka that the tests boot: the newest first, then the other one of `make test`."""

# slf4j-simple takes the place of each version's own logging (reload4j in 3.x, log4j2 in 4.x): it writes to stderr
# and needs no file of its own. 1.7.36 is the slf4j-api that Kafka 2.8 to 4.3 resolve to.
POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>brokers</groupId><artifactId>brokers</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
OTHER_LOGGING: Final = "slf4j-reload4j,slf4j-log4j12,log4j-slf4j-impl"


class BrokersUnavailable(Exception):
    """The tests cannot have a real broker here; the message says what to do about it."""


def kafka_jars(version: str) -> Path:
    """The folder with all jars of this Kafka version; the first call on a machine lets Maven fetch them."""
    return jars_of(f"kafka-{version}", f"Apache Kafka {version}", POM.format(version=version))


def jars_of(name: str, what: str, pom: str) -> Path:
    """The folder with all that this project of Maven depends on; `what` names it where Maven cannot have it."""

    def make(jars: Path) -> None:
        pom_path = jars.with_name("pom.xml")
        pom_path.write_text(pom, encoding="utf-8")
        _copy_dependencies(pom_path, jars, what)

    return made_once(cache_folder() / f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}", make)


def made_once(wanted: Path, make: Callable[[Path], None]) -> Path:
    """A file or folder, made in a folder beside it and then renamed: the first wins, and nobody sees half of it."""
    if not wanted.exists():
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wanted.parent, prefix=".making-") as making:
            made = Path(making, "made")
            make(made)
            try:
                made.rename(wanted)
            except OSError:
                if not wanted.exists():
                    raise
    return wanted


def cache_folder() -> Path:
    """`KAFKA_JARS_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("KAFKA_JARS_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-transaction-exporter"


def require_program(name: str, debian_package: str) -> str:
    """The path of a program, or one sentence about what to install."""
    found = shutil.which(name)
    if found is None:
        raise BrokersUnavailable(f"{name} is missing: real brokers need it (on Debian: {debian_package})")
    return found


def _copy_dependencies(pom_path: Path, folder: Path, what: str) -> None:
    goal = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"
    run = subprocess.run(
        [
            require_program("mvn", "maven"),
            *("-q", "-B", "-f", str(pom_path), goal),
            *(f"-DoutputDirectory={folder}", f"-DexcludeArtifactIds={OTHER_LOGGING}", "-DincludeScope=runtime"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RESOLVE_TIMEOUT_S,
        check=False,
    )
    if run.returncode != 0:
        lines = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if "ERROR" in line] or lines[-1:] or [f"status {run.returncode}"]
        first = re.sub(r"\x1b\[[0-9;]*m|\[ERROR\]", "", errors[0]).strip()
        raise BrokersUnavailable(f"Maven could not resolve {what}: {first}")
