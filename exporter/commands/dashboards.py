"""`dashboards`: prints a dashboard for Grafana, or writes all of them."""

from __future__ import annotations

from pathlib import Path

from exporter.artifacts import DASHBOARDS, dashboard
from exporter.commands.context import Context
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings


def run(context: Context, _: Settings | None) -> int:
    """Prints one dashboard, or writes all into a directory; returns the exit status."""
    options = context.options
    if (options.name is None) == (options.output is None):
        return complain("name one dashboard to print, or --output for all of them", ExitStatus.WRONG_USAGE)
    if options.name is not None:
        print(dashboard(options.name), end="")
        return ExitStatus.ANSWERED
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in DASHBOARDS:
            (folder / f"kafka-transactions-{name}.json").write_text(dashboard(name), encoding="utf-8")
    except OSError as error:
        return complain(f"{folder}: {error.strerror}")
    return ExitStatus.ANSWERED
