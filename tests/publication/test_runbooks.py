"""The exporter's own pages of runbooks: all of them, complete, and every link between them leads to a page."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Final

from exporter.artifacts import runbooks
from exporter.publication.page.runbooks import render_runbooks

FOLDER: Final = Path(__file__).parents[2] / "alerts" / "runbooks"
PAGES: Final = {path: page.with_alarm(None).decode() for path, page in render_runbooks(runbooks()).items()}


def test_every_runbook_has_a_page() -> None:
    assert set(PAGES) == {f"/runbooks/{path.name}" for path in FOLDER.glob("*.md")}


def test_a_page_has_every_line_as_it_is_pasted() -> None:
    """Only the addresses of links, and comments, are gone."""
    for path, page in PAGES.items():
        shown = re.search(r'<pre id="runbook">(.*)</pre>', page, re.DOTALL)
        assert shown is not None
        text = unescape(re.sub(r"</?(?:a|span)\b[^>]*>", "", shown[1]))
        written = re.sub(r"<!--.*?-->\n", "", (FOLDER / Path(path).name).read_text())
        assert text == re.sub(r"\[([^\]\n]+)\]\(\w+\.md(?:#[\w-]*)?\)", r"\1", written)


def test_links_lead_to_pages_and_their_headings() -> None:
    links = {link for page in PAGES.values() for link in re.findall(r'href="(/runbooks/[^"]*)"', page)}
    assert len(links) > 15
    for link in links:
        path, _, anchor = link.partition("#")
        assert not anchor or f' id="{anchor}"' in PAGES[path], link
        assert path in PAGES
    assert "/runbooks/README.md#commit-or-abort" in links


def test_what_looks_like_html_is_text() -> None:
    page = render_runbooks({"X": "<script>alert(1)</script> [a](b.md)"})["/runbooks/X.md"].with_alarm(None).decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
