"""Makes a page of each runbook: its Markdown as it stands, with the links between the runbooks.

The exporter serves its own, so that no page depends on a server of somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape as _e
from typing import Final

from exporter.publication.page.page import Page, as_bytes, foot, head
from exporter.publication.paths import INCIDENTS, RUNBOOKS

_DAY_MS: Final = 24 * 60 * 60 * 1000
"""A page reloads itself; this one does not change."""
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\((\w+)\.md(?:#[\w-]*)?\)")


def render_runbooks(runbooks: Mapping[str, str]) -> Mapping[str, Page]:
    """Path -> page."""
    return {f"{RUNBOOKS}/{name}.md": _page(name, text) for name, text in runbooks.items()}


def _page(name: str, text: str) -> Page:
    title = "Runbooks" if name == "README" else name
    links = (("/", "status"), (INCIDENTS, "incidents"), (f"{RUNBOOKS}/README.md", "runbooks"))
    body = _LINK.sub(rf'<a href="{RUNBOOKS}/\2.md">\1</a>', _e(text, quote=False))
    return Page(
        head=as_bytes([head(title, _e(title), _DAY_MS, links)]),
        rest=as_bytes([f'<pre id="runbook">{body}</pre>', foot()]),
    )
