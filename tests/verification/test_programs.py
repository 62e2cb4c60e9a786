"""Every program of this room can be asked what it does, without doing it, and is in the README."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.each import each
from tests.verification.mutations import FAULTS, ROOT, Fault

HERE: Final = Path(__file__).parent
FOLDERS: Final = sorted(path.parent.name for path in HERE.glob("*/__main__.py"))
PROGRAMS: Final = [*FOLDERS, "soak.flat", "standstill.crowd", "privileges", "mutations"]


ASK_ALL: Final = """
import contextlib, io, json, runpy, sys
printed = {}
for module in sys.argv[1:]:
    sys.argv = [module, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as ending:
            printed[module] = [ending.code, output.getvalue()]
print(json.dumps(printed))
"""
"""One process asks each of them: to load them costs more than what they do."""


@pytest.mark.long
def test_help_is_printed_and_nothing_else_happens() -> None:
    """A situation takes minutes to play, and its result replaces a document: `--help` must not start that."""
    modules = [f"tests.verification.{name}" for name in PROGRAMS]
    run = subprocess.run(
        [sys.executable, "-c", ASK_ALL, *modules], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    printed = json.loads(run.stdout)

    assert list(printed) == modules
    wrong = {
        module: (status, help_)
        for module, (status, help_) in printed.items()
        if status != 0 or not help_.startswith(f"usage: python -m {module} ")
    }
    assert wrong == {}


def test_the_readme_names_every_program() -> None:
    """A row of its first table for each folder and for each program that is one file."""
    programs, _, _ = (HERE / "README.md").read_text().partition("\n## ")
    rows = {line.split("`")[1] for line in programs.splitlines() if line.startswith("| `")}

    assert len(FOLDERS) == 11
    files = {"soak/flat.py", "standstill/crowd.py", "privileges.py", "mutations.py"}
    assert rows == {*(f"{name}/" for name in FOLDERS), *files}


@each(FAULTS, name=lambda fault: f"{fault.path}: {fault.new[:40]}")
def test_every_fault_can_be_made(fault: Fault) -> None:
    """Its text occurs once in the file: a fault that changes nothing would be found by no test, or by any."""
    assert fault.old != fault.new
    assert (ROOT / "exporter" / fault.path).read_text().count(fault.old) == 1
