"""A test without a mark starts no foreign program, and fixtures mark the tests that use them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REFUSED = "A test without a mark starts /usr/bin/env"
HOOKS = """
from tests.conftest import pytest_collection_modifyitems, pytest_configure, pytest_runtest_call, pytest_runtest_setup
"""
TESTS = """
import contextlib, subprocess, sys
import pytest
from tests.marks import starts

PROGRAM = "/usr/bin/env"
FOUND = "import shutil; print(shutil.which('env'))"

@pytest.fixture(scope="module")
@starts("broker")
def cluster():
    return subprocess.run([PROGRAM], check=True)

@pytest.fixture
def topic(cluster):
    pass

@pytest.fixture
def unregistered():
    subprocess.run([PROGRAM], check=True)

def test_by_a_registered_fixture(topic):
    subprocess.run([PROGRAM], check=True)

@pytest.mark.programs
def test_by_its_own_mark():
    subprocess.run([PROGRAM], check=True)

def test_python():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_children_find_no_program():
    assert subprocess.check_output([sys.executable, "-c", FOUND], text=True) == "None\\n"

def test_foreign_program():
    subprocess.run([PROGRAM], check=True)

def test_exception_is_caught():
    with contextlib.suppress(Exception):
        subprocess.run([PROGRAM], check=True)

def test_by_an_unregistered_fixture(unregistered):
    pass
"""


def ran(folder: Path, *arguments: str) -> dict[str, str]:
    """Test -> outcome, of a pytest that has this project's hooks."""
    (folder / "conftest.py").write_text(HOOKS)
    (folder / "test_programs.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-rA", "--color=no", "-c", str(ROOT / "pyproject.toml"), "--rootdir=."]
    run = subprocess.run(
        [*words, "-p", "no:cacheprovider", *arguments, str(folder)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    results = re.findall(r"^(PASSED|FAILED|ERROR) .*?::test_(\w+)(?: - (.*))?$", run.stdout, re.MULTILINE)
    return {name: REFUSED if REFUSED in why else outcome for outcome, name, why in results}


def test_a_test_without_a_mark_starts_python_only(tmp_path: Path) -> None:
    """A foreign program is refused even where the test catches the exception, and children find none on their PATH."""
    assert ran(tmp_path) == {
        "python": "PASSED",
        "children_find_no_program": "PASSED",
        "foreign_program": REFUSED,
        "exception_is_caught": REFUSED,
        "by_an_unregistered_fixture": REFUSED,
    }


def test_a_fixture_marks_the_tests_that_use_it(tmp_path: Path) -> None:
    """Through other fixtures too; tests with a mark start what they like."""
    assert ran(tmp_path, "-m", "broker") == {"by_a_registered_fixture": "PASSED"}
    assert ran(tmp_path, "-m", "programs") == {"by_its_own_mark": "PASSED"}
