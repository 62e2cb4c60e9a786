"""Draws the first screen of the status page of a running exporter, such as that of `make demo`, for the documents."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tests.verification.pictures.__main__ import KEPT, screenshot

WIDTH, HEIGHT, SCALE = 1240, 706, 0.8
VIRTUAL_MS: Final = 5_000
"""Less than the page's own refresh, which would begin the drawing again and again."""


def main() -> int:
    """Draw it into docs/pictures/status-page.png."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.pictures.status_page", description=__doc__)
    parser.add_argument("url", metavar="URL", help="the page, such as http://127.0.0.1:9814/")
    url = parser.parse_args().url
    screenshot(url, KEPT / "status-page.png", HEIGHT, SCALE, width=WIDTH, virtual_ms=VIRTUAL_MS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
