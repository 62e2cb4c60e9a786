"""Makes a page of each runbook, its Markdown as it stands with links, and a list of all on the page README.

The exporter serves its own, so that no page depends on a server of somebody else.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from html import escape as _e
from typing import Final

from exporter.artifacts import PROJECT
from exporter.publication.page.page import Page, as_bytes, foot, head
from exporter.publication.paths import INCIDENTS, RUNBOOKS

_DAY_MS: Final = 24 * 60 * 60 * 1000
"""A page reloads itself; this one does not change."""
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\((?:(\w+)\.md)?(#[\w-]+)?\)")
_LINK_TO_OTHERS: Final = re.compile(r"\[([^\]\n]+)\]\(([./\w-]+\.md(?:#[\w-]+)?)\)")
"""Link to a page of the project that the exporter does not serve."""
_SOURCE: Final = "alerts/runbooks"
"""Folder of the runbooks in the project: a link between pages is relative to it."""
_COMMON: Final = "README"
_ALERTS: Final = re.compile(r"^Alert .+$", re.MULTILINE)
"""Line of a runbook that names its alerts with their severities, and the reason."""
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCE: Final = re.compile(r"^( *)```(?:sh|text)\n(.*?)\n *```\n", re.MULTILINE | re.DOTALL)
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
    body = _HEADING.sub(_with_anchor, _e(_COMMENT.sub("", text), quote=False))
    body = _FENCE.sub(_as_command, body)
    body = _LINK_TO_OTHERS.sub(_as_link_to_project, _LINK.sub(_as_link, body))
    return Page(
        head=as_bytes([head(title, _e(title), _DAY_MS, links)]),
        rest=as_bytes([*(_list(runbooks) if name == _COMMON else ()), f'<pre id="runbook">{body}</pre>', foot()]),
    )


def _list(runbooks: Mapping[str, str]) -> Iterator[str]:
    """Yields a list with a link to each runbook, and the line of its alerts."""
    yield '<ul id="runbooks">'
    for name, text in runbooks.items():
        if name != _COMMON:
            alerts = _ALERTS.search(text)
            line = "" if alerts is None else f": {_e(alerts[0].replace('`', ''), quote=False)}"
            yield f'<li><a href="{RUNBOOKS}/{_e(name)}.md">{_e(name)}</a>{line}</li>'
    yield "</ul>"


def _as_link(link: re.Match[str]) -> str:
    """A link to another runbook, or to a heading of this one."""
    words, runbook, anchor = link.groups(default="")
    return f'<a href="{f"{RUNBOOKS}/{runbook}.md" if runbook else ""}{anchor}">{words}</a>'


def _as_link_to_project(link: re.Match[str]) -> str:
    """Returns a link with the full address, which works wherever the exporter runs."""
    words, target = link.groups()
    return f'<a href="{PROJECT}/blob/main/{posixpath.normpath(f"{_SOURCE}/{target}")}" rel="noreferrer">{words}</a>'


def _as_command(fence: re.Match[str]) -> str:
    """The lines between the fences, which a button of the page's script copies, without the indent of a list.

    The element is a block, so that no newline follows it.
    """
    lines = [line.removeprefix(fence[1]) for line in fence[2].splitlines()]
    return f'<code class="command">{chr(10).join(lines)}</code>'


def _with_anchor(heading: re.Match[str]) -> str:
    """The line with the id that a link to this heading has: that of forges and of the documentation's site."""
    anchor = re.sub(r"[^\w -]", "", heading[1].lower()).replace(" ", "-")
    return f'<span id="{anchor}">{heading[0]}</span>'
