"""What each command prints is what the text files show."""

from __future__ import annotations

import pytest

from tests.commands.golden import FOLDER, GOLDEN


@pytest.mark.parametrize("name", GOLDEN)
def test_the_output_is_the_file(name: str) -> None:
    """A change of it is meant: `python -m tests.commands.golden` writes the files anew."""
    assert GOLDEN[name]() + "\n" == (FOLDER / f"{name}.txt").read_text()


def test_no_file_is_left_over() -> None:
    """A file without its case is compared with nothing."""
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(GOLDEN)


def test_no_output_can_command_a_terminal() -> None:
    """Not even the ids that were made for it."""
    for path in FOLDER.glob("*.txt"):
        assert all(character.isprintable() or character in "\n\t" for character in path.read_text()), path.name
