"""Draws every dashboard in every scenario from a real Prometheus, in headless Chromium, and reports errors.

Pictures go to `build/artefacts/dashboards/`; two first screens, small, to `docs/pictures/`; status_page.py draws a third.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any, Final

from tests.grafana.colours import is_green
from tests.grafana.expected import is_empty
from tests.grafana.reading import COMMITTED, Json, chosen_on, expanded, panels, targets
from tests.grafana.recorded import ROOT, Prometheus, ends_s, recorded
from tests.grafana.scenarios import SCENARIOS, SHOWN_S
from tests.verification.pictures.components import bundle, program

ARTEFACTS: Final = ROOT / "build" / "artefacts" / "dashboards"
KEPT: Final = ROOT / "docs" / "pictures"
SMALL: Final = {"overview-hanging": 0.55, "partition-hanging": 0.55}
"""The pictures that the documents show, and how much smaller."""
CELL, TOP, WIDTH = 38, 56, 24 * 76 + 16
"""As in page.tsx."""
PAGE: Final = (
    '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css">'
    '<body style="margin:0"><div id="root"></div><script src="page.js"></script>'
)
ALL_READ: Final = ("healthy", "transaction_log", "fleet", "one_process", "idle")
GREENS: Final = dict.fromkeys(product(("overview", "fleet"), ALL_READ), 1)
"""How many values and lines are green: an exporter that has read everything and found nothing. Everywhere else none is."""


class Routes:
    """What one picture's page loads, and the report that it sends when it has drawn."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.report: Json | None = None
        routes = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                body = files.get(path)
                self.send_response(404 if body is None else 200)
                kinds = {"js": "text/javascript", "css": "text/css", "json": "application/json"}
                self.send_header("Content-Type", kinds.get(path.rpartition(".")[2], "text/html"))
                self.end_headers()
                self.wfile.write(body or b"")

            def do_POST(self) -> None:
                routes.report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_args: Any) -> None:
                """Say nothing: the report says it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    @contextmanager
    def served(self) -> Iterator[None]:
        """Until the picture is made."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def main() -> int:
    """Draw, and print a line for each picture; status 1 where one has a problem."""
    every = {f"{dashboard}-{scenario}": (dashboard, scenario) for scenario in SCENARIOS for dashboard in COMMITTED}
    parser = argparse.ArgumentParser(prog="python -m tests.verification.pictures", description=__doc__)
    parser.add_argument("name", nargs="*", metavar="NAME", help="draw this picture only, such as overview-hanging")
    parser.add_argument("--light", action="store_true", help="in Grafana's light theme, into NAME-light.png")
    options = parser.parse_args()
    wanted = options.name
    if unknown := set(wanted) - set(every):
        parser.error(f"no picture has the name {', '.join(sorted(unknown))}; there are: {', '.join(every)}")
    begun = time.monotonic()
    chosen = [pair for name, pair in every.items() if not wanted or name in wanted]
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as temporary, recorded() as prometheus:
        bundle(Path(temporary))
        page = {f"/{path.name}": path.read_bytes() for path in Path(temporary).iterdir()} | {"/": PAGE.encode()}
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda pair: picture(page, prometheus, *pair, is_light=options.light), chosen))
    bad = 0
    for (dashboard, scenario), (drawn, problems) in zip(chosen, results, strict=True):
        print(f"{dashboard}-{scenario}: {drawn} panels drawn", *(f"\n  {problem}" for problem in problems), sep="")
        bad += bool(problems)
    panels_drawn = sum(drawn for drawn, _ in results)
    print(f"{len(chosen)} pictures, {panels_drawn} panels, {bad} with a problem, {time.monotonic() - begun:.0f} s")
    return 1 if bad else 0


def picture(
    page: dict[str, bytes], prometheus: Prometheus, dashboard: str, scenario: str, *, is_light: bool
) -> tuple[int, list[str]]:
    """Draw one: how many panels, and what was wrong with them."""
    to = ends_s(scenario)
    config = {
        "prometheus": prometheus.url,
        "from": to - SHOWN_S,
        "to": to,
        "step": 30,
        "variables": chosen_on(dashboard, datasource="prometheus"),
    }
    shown = expanded(COMMITTED[dashboard])
    routes = Routes(
        {**page, "/dashboard.json": json.dumps(shown).encode(), "/config.json": json.dumps(config).encode()}
    )
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in shown["panels"])
    name = f"{dashboard}-{scenario}"
    with routes.served():
        theme, ending = ("?light", "-light") if is_light else ("", "")
        screenshot(routes.url + theme, ARTEFACTS / f"{name}{ending}.png", bottom * CELL + TOP)
        if name in SMALL and not is_light:
            first = next(panel["gridPos"]["y"] for panel in shown["panels"] if panel["type"] == "row")
            screenshot(routes.url, KEPT / f"{name}.png", first * CELL + TOP, SMALL[name])
    return judged(dashboard, scenario, routes.report)


def screenshot(
    url: str, path: Path, height: int, scale: float = 1, *, width: int = WIDTH, virtual_ms: int = 20_000
) -> None:
    """By a Chromium of its own, which ends when it is done."""
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        path.unlink(missing_ok=True)
        subprocess.run(
            [
                *(program("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *(
                    f"--user-data-dir={profile}",
                    f"--window-size={width},{height}",
                    f"--virtual-time-budget={virtual_ms}",
                ),
                *(f"--force-device-scale-factor={scale}", f"--screenshot={path}", url),
            ],
            capture_output=True,
            check=True,
            timeout=180,
        )


def judged(dashboard: str, scenario: str, report: Json | None) -> tuple[int, list[str]]:
    """How many panels were drawn, and every difference from what should have been."""
    if report is None or "failed" in report:
        return 0, [str((report or {}).get("failed", "the page never said what it drew"))]
    drawn = {panel["title"]: panel for panel in report["panels"]}
    problems = list(report["uncaught"])
    problems += [f"{title}: not drawn" for title in titles(dashboard) if title not in drawn]
    empty = titles_without_answer(dashboard, scenario)
    for title, panel in drawn.items():
        if "problem" in panel:
            problems.append(f"{title}: {panel['problem']}")
        elif panel["empty"] != (title in empty):
            problems.append(f"{title}: {'no data' if panel['empty'] else 'data where none was expected'}")
        odd = [text for text in panel["texts"] if text == "" or "${" in text or "NaN" in text or "undefined" in text]
        problems += [f"{title}: shows {text!r}" for text in odd if not (text == "" and panel["type"] == "table")]
    green = [title for title, panel in drawn.items() for colour in panel["colours"] if is_green(colour)]
    if len(green) != GREENS.get((dashboard, scenario), 0):
        problems.append(f"{len(green)} values are green, in {', '.join(green) or 'no panel'}")
    return len(drawn), problems


def titles(dashboard: str) -> list[str]:
    """Of every panel."""
    return [panel["title"] for panel in panels(COMMITTED[dashboard])]


def titles_without_answer(dashboard: str, scenario: str) -> set[str]:
    """Of the panels none of whose questions has an answer."""
    shown = [target for target in targets() if target.dashboard == dashboard]
    answered = {target.panel["title"] for target in shown if not is_empty(target, scenario)}
    return {target.panel["title"] for target in shown} - answered


if __name__ == "__main__":
    sys.exit(main())
