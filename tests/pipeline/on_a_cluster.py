"""The commands of *On a cluster* in docs/pipeline.md, with places of a test in place of those of the document."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.brokers.jars import spark_jars
from tests.pipeline.program import PATIENCE_S

ROOT: Final = Path(__file__).parents[2]
_PLACES: Final = (("s3://kafka", "{}"), ("s3a://kafka", "{}"), ("examples/", f"{ROOT}/examples/"))


def section() -> str:
    text = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    return text.partition("\n### On a cluster\n")[2].partition("\n### ")[0]


def fences(language: str) -> list[str]:
    """The blocks of this language in the section."""
    return re.findall(rf"```{language}\n(.*?)```", section(), re.DOTALL)


def with_places(command: str, folder: Path, more: Mapping[str, str]) -> str:
    """History and tables are in the folder. Each of `more`, text in the document -> text of the test, must be there."""
    for text, place in _PLACES:
        command = command.replace(text, place.format(folder))
    for text, replacement in more.items():
        assert text in command, text
        command = command.replace(text, replacement)
    return command.replace("/opt/spark-jars", str(spark_jars()))


def shell(command: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs in the folder, with the programs of this environment, and `more` variables."""
    own = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),  # of the driver alone
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("PYSPARK_PYTHON", None)
    return subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
