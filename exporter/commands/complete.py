"""`complete`: write on one partition the marker that its stuck coordinator has already decided."""

from __future__ import annotations

from exporter.commands.context import Context
from exporter.commands.recover import recover, with_means
from exporter.config.settings import Settings
from exporter.recovery.plan import Action


def run(context: Context, settings: Settings) -> int:
    """Complete one transaction, or say why not; the exit status."""
    options = context.options
    return with_means(
        settings,
        lambda means: recover(context, means, Action.COMPLETE),
        stuck_after_ms=options.stuck_after,
    )
