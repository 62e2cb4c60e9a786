"""The runbooks as data: sections, commands, links, and the words in backticks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "alerts" / "runbooks"
COMMON: Final = "README"
"""The page that all others lean on."""

FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<language>\w*)$")


@dataclass(frozen=True, slots=True)
class Command:
    """One line that an operator pastes, with its continuations."""

    page: str
    section: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """One runbook as it was read."""

    name: str
    text: str
    headings: tuple[tuple[int, str], ...]
    """(level, words) in their order."""
    commands: tuple[Command, ...]
    """Of the `sh` fences."""
    languages: frozenset[str]

    @property
    def sections(self) -> list[str]:
        return [words for level, words in self.headings if level == 2]

    @property
    def anchors(self) -> set[str]:
        """Anchors of the page, as GitHub makes them."""
        return {re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for _, words in self.headings}

    @property
    def prose(self) -> str:
        """All but the fences."""
        return re.sub(r"^ *```.*?^ *```$", "", self.text, flags=re.DOTALL | re.MULTILINE)

    @property
    def words(self) -> list[str]:
        """The words in backticks."""
        return re.findall(r"`([^`\n]+)`", self.prose)

    @property
    def links(self) -> list[str]:
        return re.findall(r"\]\(([^)\s]+)\)", self.prose)


def pages() -> dict[str, Page]:
    """Every page of the folder, by its name."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.md"))}


FIRST_BLOCK: Final = re.compile(r"<!-- first: .*?<!-- end of first -->\n", re.DOTALL)
"""The same in every runbook, and made by `make generate`."""


def read(path: Path) -> Page:
    """A page without the first block."""
    text = FIRST_BLOCK.sub("", path.read_text(encoding="utf-8"))
    headings: list[tuple[int, str]] = []
    commands: list[Command] = []
    languages: set[str] = set()
    section, language, pending = "", None, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence is not None:
            language = fence["language"] if language is None else None
            languages |= {language} if language is not None else set()
        elif language is not None:
            pending += line.strip() if not pending else f"\n{line.strip()}"
            if language != "sh" or line.endswith("\\") or not pending or pending.startswith("#"):
                pending = pending if language == "sh" and line.endswith("\\") else ""
                continue
            commands.append(Command(path.stem, section, number, pending))
            pending = ""
        elif line.startswith("#"):
            level, words = len(line) - len(line.lstrip("#")), line.lstrip("# ")
            headings.append((level, words))
            section = words
    assert language is None, f"{path.name} has a fence that is never closed"
    return Page(path.stem, text, tuple(headings), tuple(commands), frozenset(languages))
