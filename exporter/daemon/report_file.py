"""Shows the pipeline's report as a page: read again when it changes, or a page that says why it cannot be shown."""

from __future__ import annotations

import logging
from html import escape
from typing import Final

from exporter.log_format import LatestState
from exporter.publication.page.page import Page, as_bytes, foot, head
from exporter.storage.places import Place
from exporter.storage.small_file import ChangingText

log = logging.getLogger("exporter")

BYTES_MAX: Final = 10_000_000
_DAY_MS: Final = 24 * 60 * 60 * 1000
_BEGIN: Final = "<!doctype html>"


class ReportFile:
    """The report at `path`. `page` is called by one thread at a time, and waits for no store."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._text = ChangingText(path, bytes_max=BYTES_MAX)
        self._page = Page(head=b"")
        self._latest = LatestState()

    def page(self) -> Page:
        changed = self._text.changed()
        if changed is not None:
            text, failure = changed
            if failure is None and not text.startswith(_BEGIN):
                failure = "it is not a report of the pipeline"
            self._page = Page(head=as_bytes([text])) if failure is None else self._explanation(failure)
            self._say(failure)
        return self._page

    def _explanation(self, failure: str) -> Page:
        sentence = escape(f"The report {self._path} cannot be shown: {failure}.")
        links = (("/", "status"),)
        return Page(
            head=as_bytes([head("Report", "Report", _DAY_MS, links)]), rest=as_bytes([f"<p>{sentence}</p>", foot()])
        )

    def _say(self, failure: str | None) -> None:
        if self._latest.is_new(failure) and failure is not None:
            log.warning("report %s is not shown: %s", self._path, failure, extra={"subject": "report"})
