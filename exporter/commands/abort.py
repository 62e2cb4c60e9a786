"""`abort`: writes ABORT markers for hanging transactions: for one on one partition, or for those of a plan file."""

from __future__ import annotations

import argparse

from exporter.commands.abort_planned import abort_planned
from exporter.commands.context import Context
from exporter.commands.recover import recover, with_means
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.settings import Settings
from exporter.recovery.plan import Action


def run(context: Context, settings: Settings) -> int:
    """Aborts the transaction or reports why not; returns the exit status."""
    options = context.options
    against = wrong_usage(options)
    if against is not None:
        return complain(against, ExitStatus.WRONG_USAGE)
    if options.plan_file is not None:
        return with_means(settings, lambda means: abort_planned(context, means))
    # It waits as `find-hanging` does: the remedy of a stuck transaction is another than that of one that is completing.
    return with_means(
        settings, lambda means: recover(context, means, Action.ABORT, forced=options.force), stuck_after_ms=None
    )


def wrong_usage(options: argparse.Namespace) -> str | None:
    """Options that cannot be combined, in a sentence."""
    producer = (options.producer_id, options.producer_epoch, options.coordinator_epoch)
    one = (options.topic, options.partition, options.start_offset, *producer, options.force)
    if options.plan_file is not None:
        if options.accept_data_loss or any(option is not None for option in one):
            return "--plan-file names the transactions: remove --force and the options that name one transaction"
        return None
    if options.max_aborts is not None:
        return "--max-aborts needs --plan-file"
    if options.topic is None or options.partition is None:
        return "name the partition with --topic and --partition, or name many transactions with --plan-file"
    if (options.force is not None) is not options.accept_data_loss:
        return "--force and --accept-data-loss need each other: an abort without proof can lose committed records"
    if options.start_offset is None and None in producer:
        return (
            "name the transaction with --start-offset, or with --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if options.start_offset is not None and producer != (None, None, None):
        return "--start-offset is enough to name the transaction: remove the options of the producer"
    return None
