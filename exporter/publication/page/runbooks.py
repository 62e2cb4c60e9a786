"""Makes a page of each runbook from its Markdown, and a list of all on the page README.

The exporter serves its own, so that no page depends on a server of somebody else.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape as _e
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from exporter.artifacts import PROJECT
from exporter.publication.page.page import Page, as_bytes, foot, head
from exporter.publication.paths import INCIDENTS, RUNBOOKS

_DAY_MS: Final = 24 * 60 * 60 * 1000
"""A page reloads itself; this one does not change."""
_SOURCE: Final = "alerts/runbooks"
"""Folder of the runbooks in the project: a link between pages is relative to it."""
_COMMON: Final = "README"
_ALERTS: Final = re.compile(r"^Alert .+$", re.MULTILINE)
"""Line of a runbook that names its alerts with their severities, and the reason."""
_COMMENT: Final = re.compile(r"^<!-- .*? -->\n", re.MULTILINE)


def render_runbooks(runbooks: Mapping[str, str]) -> Mapping[str, Page]:
    """Path -> page; the folder's own path leads to the list of all runbooks."""
    pages = {f"{RUNBOOKS}/{name}.md": _page(name, text, runbooks) for name, text in runbooks.items()}
    short = {f"{RUNBOOKS}/{name}": f"{name}.md" for name in runbooks}
    moved = {RUNBOOKS: f".{RUNBOOKS}/{_COMMON}.md", f"{RUNBOOKS}/": f"{_COMMON}.md"} if _COMMON in runbooks else {}
    return pages | {path: Page(head=b"", moved_to=to) for path, to in (short | moved).items()}


def _page(name: str, text: str, runbooks: Mapping[str, str]) -> Page:
    title = "Runbooks" if name == _COMMON else name
    links = (("/", "status"), (INCIDENTS, "incidents"))
    body = f'<article id="runbook">{_html(_COMMENT.sub("", text))}</article>'
    return Page(
        head=as_bytes([head(title, _e(title), _DAY_MS, links)]),
        rest=as_bytes([*(_list(runbooks) if name == _COMMON else ()), body, foot()]),
    )


def _html(text: str) -> str:
    """The text as HTML, without its title, which the page has already. HTML in it stays text."""
    tokens = _MARKDOWN.parse(text)
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[number + 1].content))
        for inner in token.children or ():
            if inner.type == "link_open":
                _lead_to_page(inner)
    if tokens and tokens[0].tag == "h1":
        del tokens[: [token.type for token in tokens].index("heading_close") + 1]
    return str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def _list(runbooks: Mapping[str, str]) -> Iterator[str]:
    """Yields a list with a link to each runbook, and the line of its alerts."""
    yield '<ul id="runbooks">'
    for name, text in runbooks.items():
        if name != _COMMON:
            alerts = _ALERTS.search(text)
            line = "" if alerts is None else f": {_e(alerts[0].replace('`', ''), quote=False)}"
            yield f'<li><a href="{RUNBOOKS}/{_e(name)}.md">{_e(name)}</a>{line}</li>'
    yield "</ul>"


def _lead_to_page(link: Token) -> None:
    """Gives a link to another runbook its path, and one to a page that the exporter does not serve its full address."""
    path, mark, anchor = str(link.attrGet("href")).partition("#")
    if not path.endswith(".md"):
        return
    if "/" not in path:
        link.attrSet("href", f"{RUNBOOKS}/{path}{mark}{anchor}")
        return
    link.attrSet("href", f"{PROJECT}/blob/main/{posixpath.normpath(f'{_SOURCE}/{path}')}{mark}{anchor}")
    link.attrSet("rel", "noreferrer")


def _anchor(heading: str) -> str:
    """The id that a link to this heading has: that of forges and of the documentation's site."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _as_command(_: object, tokens: Sequence[Token], number: int, *__: object) -> str:
    """The lines of a fence, which a button of the page's script copies."""
    return f'<pre><code class="command">{_e(tokens[number].content.rstrip(), quote=False)}</code></pre>\n'


_MARKDOWN: Final = MarkdownIt("js-default", {"linkify": False, "typographer": False})
_MARKDOWN.add_render_rule("fence", _as_command)
