"""Ends the process at a stated time after the order to stop, whatever still hangs."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Final

log = logging.getLogger("exporter")

END_SECONDS: Final = 0.8
"""Seconds from the order to stop to the end of the process; an orderly end takes a tenth of it."""
STATUS: Final = 0
"""Files are complete at any instant, so this end is as good as the other one."""


def end_after(seconds: float) -> None:
    """Sleeps, and ends the process if it still runs then."""
    time.sleep(seconds)
    # The lock of a log handler may be held by what hangs.
    threading.Thread(target=_log_the_end, daemon=True).start()
    time.sleep(0.05)
    os._exit(STATUS)


def _log_the_end() -> None:
    log.warning("ended without waiting for what still runs")
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
