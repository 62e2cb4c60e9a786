"""`abort`: close a hanging transaction on one partition with an ABORT marker."""

from __future__ import annotations

import argparse

from exporter.commands.recover import recover
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.recovery.plan import Action


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Abort one transaction, or say why not; the exit status."""
    producer = (options.producer_id, options.producer_epoch, options.coordinator_epoch)
    if options.start_offset is None and None in producer:
        complain(
            "name the transaction by --start-offset, or by --producer-id, --producer-epoch and --coordinator-epoch"
        )
        return ExitStatus.WRONG_USAGE
    if options.start_offset is not None and producer != (None, None, None):
        complain("--start-offset names the transaction by itself: leave the producer's options out")
        return ExitStatus.WRONG_USAGE
    return recover(options, settings, Action.ABORT, forced=options.force)
