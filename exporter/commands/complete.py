"""`complete`: write on one partition the marker that its stuck coordinator has already decided."""

from __future__ import annotations

import argparse

from exporter.commands.recover import recover
from exporter.config.settings import Settings
from exporter.recovery.plan import Action


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Complete one transaction, or say why not; the exit status."""
    return recover(options, settings, Action.COMPLETE, stuck_after_ms=options.stuck_after)
