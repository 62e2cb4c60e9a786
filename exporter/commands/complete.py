"""`complete`: writes the marker of a COMMIT or ABORT that the coordinator has decided but not written on a partition."""

from __future__ import annotations

from exporter.commands.context import Context
from exporter.commands.recover import recover, with_means
from exporter.config.settings import Settings
from exporter.recovery.plan import Action


def run(context: Context, settings: Settings) -> int:
    """Completes one transaction, or reports why not; returns the exit status."""
    options = context.options
    return with_means(
        settings,
        lambda means: recover(context, means, Action.COMPLETE),
        stuck_after_ms=options.stuck_after,
    )
