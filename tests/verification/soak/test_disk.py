"""The disk that is filled in a soak: in a process of its own, as mounts of a thread stay with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TRIES = """
import os, sys
from pathlib import Path
from tests.verification.soak.disk import Disk, NoDiskError

def fits() -> bool:
    try:
        (place / "data").write_bytes(b"x")
    except OSError as error:
        return False
    return True

place = Path(sys.argv[1])
os.setuid(int(sys.argv[2]))
try:
    disk = Disk(place, megabytes=1)
    disk.fill()
    was_full = not fits()
    disk.free()
    fits_again = fits()
    is_seen = str(place) in Path(f"/proc/{os.getppid()}/mountinfo").read_text()
    disk.close()
    print(was_full, fits_again, is_seen, list(place.iterdir()))
except NoDiskError as error:
    print(error)
"""
NOBODY = 65534


def tried(place: Path, user: int) -> str:
    """The result of a process of that user."""
    arguments = [sys.executable, "-c", TRIES, str(place), str(user)]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    return tmp_path


def test_a_full_disk_takes_nothing_until_it_is_freed(place: Path) -> None:
    """Nobody else sees it, and nothing of it is left."""
    output = tried(place, 0)
    if "refused" in output:
        pytest.skip(output)
    assert output == "True True False []"


def test_a_disk_that_cannot_be_is_refused_in_a_sentence(place: Path) -> None:
    """For a soak to say why it goes without."""
    assert tried(place, NOBODY) == "a mount namespace of our own is refused: Operation not permitted"
