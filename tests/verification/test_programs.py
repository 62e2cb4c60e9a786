"""Every program of this room can be asked what it does, without doing it, and is in the README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.each import each
from tests.verification.mutations import FAULTS, ROOT, Fault

HERE: Final = Path(__file__).parent
FOLDERS: Final = sorted(path.parent.name for path in HERE.glob("*/__main__.py"))
PROGRAMS: Final = [*FOLDERS, "soak.flat", "privileges", "mutations"]


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_help_is_printed_and_nothing_else_happens(name: str) -> None:
    """A situation takes minutes to play, and its result replaces a document: `--help` must not start that."""
    module = f"tests.verification.{name}"
    run = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.startswith(f"usage: python -m {module} ")


def test_the_readme_names_every_program() -> None:
    """A row for each folder and for each program that is one file."""
    rows = {line.split("`")[1] for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| `")}

    assert len(FOLDERS) == 7
    assert rows == {*(f"{name}/" for name in FOLDERS), "soak/flat.py", "privileges.py", "mutations.py"}


@each(FAULTS, name=lambda fault: f"{fault.path}: {fault.new[:40]}")
def test_every_fault_can_be_made(fault: Fault) -> None:
    """Its text occurs once in the file: a fault that changes nothing would be found by no test, or by any."""
    assert fault.old != fault.new
    assert (ROOT / "exporter" / fault.path).read_text().count(fault.old) == 1
