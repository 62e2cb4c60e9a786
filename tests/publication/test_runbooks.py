"""The exporter's own pages of runbooks: all of them, complete, and every link between them leads to a page."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from exporter.artifacts import PROJECT, runbooks
from exporter.publication.page.runbooks import render_runbooks

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "alerts" / "runbooks"
RENDERED: Final = render_runbooks(runbooks())
PAGES: Final = {path: page.with_alarm(None).decode() for path, page in RENDERED.items() if not page.moved_to}


def test_every_runbook_has_a_page() -> None:
    assert set(PAGES) == {f"/runbooks/{path.name}" for path in FOLDER.glob("*.md")}


def test_the_first_page_lists_every_runbook_with_its_alert() -> None:
    """It is what a reader without an alert's link opens: a line leads to each page."""
    listed = re.search(r'<ul id="runbooks">(.*)</ul>', PAGES["/runbooks/README.md"], re.DOTALL)
    assert listed is not None
    lines = dict(re.findall(r'<li><a href="/runbooks/(\w+)\.md">\1</a>: (.*)</li>', listed[1]))
    assert list(lines) == sorted({path.stem for path in FOLDER.glob("*.md")} - {"README"})
    assert lines["KafkaTransactionLate"] == (
        "Alert KafkaTransactionBlocksConsumersLong (critical) and KafkaTransactionBlocksConsumers (warning), reason Late."
    )
    for name, line in lines.items():
        assert name == "KafkaTransaction" + line.removesuffix(".").rpartition(" ")[2], line
    assert [path for path, page in PAGES.items() if '<ul id="runbooks">' in page] == ["/runbooks/README.md"]


def test_the_folder_leads_to_the_list() -> None:
    """Both addresses are relative to the path: a proxy may have one before it."""
    for path in ("/runbooks", "/runbooks/"):
        assert urljoin(path, RENDERED[path].moved_to) == "/runbooks/README.md"
        assert urljoin(f"/proxy{path}", RENDERED[path].moved_to) == "/proxy/runbooks/README.md"


def test_a_runbook_is_found_by_its_name_alone() -> None:
    """Alerts, messages and people name a runbook without the end of its file."""
    for name in runbooks():
        assert (
            urljoin(f"/proxy/runbooks/{name}", RENDERED[f"/runbooks/{name}"].moved_to) == f"/proxy/runbooks/{name}.md"
        )


def test_a_page_has_every_word_and_each_command_as_it_is_pasted() -> None:
    """Only the addresses of links and comments are gone; a command has neither a fence nor the indent of its list."""
    for path, page in PAGES.items():
        shown = re.search(r'<article id="runbook">(.*)</article>', page, re.DOTALL)
        assert shown is not None
        source = re.sub(r"<!--.*?-->\n", "", (FOLDER / Path(path).name).read_text())
        copied = re.findall(r'<pre><code class="command">(.*?)</code></pre>', shown[1], re.DOTALL)
        assert [unescape(command) for command in copied] == commands_of(source)
        text = unescape(re.sub(r"</?[a-z][^>]*>", "", shown[1]))
        title, written = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", source).split("\n", 1)
        assert title == f"# {Path(path).stem}" or path.endswith("README.md")
        assert words_of(text) == words_of(re.sub(r"^ *```(?:sh|text)?$|^ *\d\. ", "", written, flags=re.MULTILINE)), (
            path
        )


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def commands_of(markdown: str) -> list[str]:
    """The lines between fences, without the indent of the fence."""
    found = []
    for indent, lines in re.findall(r"^( *)```(?:sh|text)\n(.*?)\n *```$", markdown, re.MULTILINE | re.DOTALL):
        found.append("\n".join(line.removeprefix(indent) for line in lines.split("\n")))
    return found


def test_links_lead_to_pages_and_their_headings() -> None:
    links = {link for page in PAGES.values() for link in re.findall(r'href="(/runbooks/[^"]*)"', page)}
    assert len(links) > 15
    for link in links:
        path, _, anchor = link.partition("#")
        assert not anchor or f' id="{anchor}"' in PAGES[path], link
        assert path in PAGES
    assert "/runbooks/README.md#commit-or-abort" in links
    for path, page in PAGES.items():
        for anchor in re.findall(r'href="#([^"]+)"', page):
            assert f' id="{anchor}"' in page, (path, anchor)


def test_no_link_is_shown_as_markdown() -> None:
    """A page of the project that the exporter does not serve has its full address."""
    assert [path for path, page in PAGES.items() if "](" in page] == []
    outside = {link for page in PAGES.values() for link in re.findall(r'href="(https?:[^"#]*)', page)}
    assert f"{PROJECT}/blob/main/docs/commands.md" in outside
    for link in outside:
        assert (ROOT / link.removeprefix(f"{PROJECT}/blob/main/")).is_file(), link
    below = '<a href="#a-replica-that-does-not-know-the-producer">below</a>'
    assert below in PAGES["/runbooks/KafkaTransactionInconclusive.md"]


def test_what_looks_like_html_is_text() -> None:
    page = render_runbooks({"X": "<script>alert(1)</script> [a](b.md)"})["/runbooks/X.md"].with_alarm(None).decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
