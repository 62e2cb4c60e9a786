"""How the peers are started: kafka-python as it is, Java's AdminClient, and franz-go's kadm where Go can build it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from hangbench.detectors import DetectorUnavailable, build_go
from hangbench.kafka.maven import kafka_jars, require_program

HERE: Final = Path(__file__).parent
BUILT: Final = Path("build/benchmarks")
PYTHON: Final = (sys.executable, "-m")


def java_command(version: str, main: str, *, heap: str = "512m") -> list[str]:
    """A class, or a single source file, over Kafka's jars."""
    java = require_program("java", "openjdk-17-jre-headless")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java, f"-Xmx{heap}", quiet, "-cp", f"{kafka_jars(version)}/*", main]


def kadm() -> Path | None:
    """The program, built with the pinned modules; None where there is no Go or it cannot build it, which it says."""
    program = (BUILT / "scan_kadm").absolute()
    try:
        build_go(HERE / "kadm", program)
    except DetectorUnavailable as missing:
        print(missing)
        return None
    return program


def java_version() -> str:
    """As the program tells it."""
    java = require_program("java", "openjdk-17-jre-headless")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return told.split('"')[1]


def go_version() -> str | None:
    """None where there is no Go."""
    go = shutil.which("go")
    return (
        None
        if go is None
        else subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout.split()[2]
    )
