"""Shows the pipeline's report as a page, or a page that says why it cannot be shown, and when a run succeeded last."""

from __future__ import annotations

import logging
import threading
from html import escape
from typing import Final

from exporter.log_format import LatestState
from exporter.publication.page.page import Page, as_bytes, foot, head
from exporter.storage.last_run import BYTES_MAX as RUN_BYTES_MAX
from exporter.storage.last_run import FILE_NAME, parse
from exporter.storage.places import Place
from exporter.storage.small_file import ChangingText

log = logging.getLogger("exporter")

BYTES_MAX: Final = 10_000_000
_DAY_MS: Final = 24 * 60 * 60 * 1000
_BEGIN: Final = "<!doctype html>"


class ReportFile:
    """The report at `path`. Nothing waits for a store. `page` is called by one thread at a time."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._text = ChangingText(path, bytes_max=BYTES_MAX)
        self._page = Page(head=b"")
        self._latest = LatestState()
        self._run = ChangingText(path.parent / FILE_NAME, bytes_max=RUN_BYTES_MAX)
        self._lock = threading.Lock()
        self._succeeded_at_ms: int | None = None

    @property
    def folder(self) -> Place:
        """Folder of the pipeline's tables, and of the small files beside them."""
        return self._path.parent

    def page(self) -> Page:
        changed = self._text.changed()
        if changed is not None:
            text, failure = changed
            if failure is None and not text.startswith(_BEGIN):
                failure = "it is not a report of the pipeline"
            self._page = Page(head=as_bytes([text])) if failure is None else self._explanation(failure)
            self._say(failure)
        return self._page

    def succeeded_at_ms(self) -> int | None:
        """End of the newest run without a failure, by the file beside the report; None while there is none."""
        with self._lock:  # the thread of each cluster asks
            changed = self._run.changed()
            if changed is not None:
                try:
                    self._succeeded_at_ms = parse(changed[0]).succeeded_at_ms
                except ValueError:  # missing, or not the pipeline's
                    self._succeeded_at_ms = None
            return self._succeeded_at_ms

    def _explanation(self, failure: str) -> Page:
        sentence = escape(f"The report {self._path} cannot be shown: {failure}.")
        links = (("/", "status"),)
        return Page(
            head=as_bytes([head("Report", "Report", _DAY_MS, links)]), rest=as_bytes([f"<p>{sentence}</p>", foot()])
        )

    def _say(self, failure: str | None) -> None:
        if self._latest.is_new(failure) and failure is not None:
            log.warning("report %s is not shown: %s", self._path, failure, extra={"subject": "report"})
