"""`examples/spark/submit.sh` starts nothing without its secret, or without the settings of Spark that it is to read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "spark" / "submit.sh"


@pytest.mark.programs
@pytest.mark.parametrize(
    ("secret", "properties", "status"),
    [("hush", "spark.x 1", 0), ("", "spark.x 1", 1), (None, "spark.x 1", 1), ("hush", None, 1)],
    ids=["both", "an empty secret", "no secret", "no settings"],
)
def test_a_file_that_is_missing_ends_the_script(
    secret: str | None, properties: str | None, status: int, tmp_path: Path
) -> None:
    """Anybody could register as an executor with an empty secret, and would get the passwords."""
    python = tmp_path / "python"
    python.write_text('#!/usr/bin/env bash\ncase "$1" in -m) cat "$SPARK_CONF_DIR/spark-defaults.conf" ;; esac\n')
    python.chmod(0o755)
    for name, text in (("secret", secret), ("properties", properties)):
        if text is not None:
            (tmp_path / name).write_text(text)
    variables = {
        **os.environ,
        "PYTHON": str(python),
        "SPARK_MASTER": "spark://master:7077",
        "SPARK_SECRET_FILE": str(tmp_path / "secret"),
        "SPARK_PROPERTIES": str(tmp_path / "properties"),
    }
    run = subprocess.run(["bash", str(SCRIPT)], env=variables, capture_output=True, text=True, check=False)

    assert run.returncode == status, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    assert (["spark.authenticate.secret", "hush"] in lines) == (status == 0)
    assert (["spark.x", "1"] in lines) == (status == 0)
