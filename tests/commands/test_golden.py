"""Each command prints exactly the text files."""

from __future__ import annotations

import pytest

from tests.commands.golden import FOLDER, GOLDEN


@pytest.mark.parametrize("name", GOLDEN)
def test_the_output_is_the_file(name: str) -> None:
    """To the byte; after an intended change, `make generate` writes the file."""
    assert GOLDEN[name]() + "\n" == (FOLDER / f"{name}.txt").read_text(), "if this is intended: run `make generate`"


def test_no_output_can_command_a_terminal() -> None:
    """Not even the ids that were made for it."""
    for path in FOLDER.glob("*.txt"):
        assert all(character.isprintable() or character in "\n\t" for character in path.read_text()), path.name
