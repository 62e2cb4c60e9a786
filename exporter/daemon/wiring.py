"""Converts settings into the parameters of each room: the rooms do not know settings."""

from __future__ import annotations

import platform
from dataclasses import asdict

from exporter import __version__
from exporter.config.settings import Settings
from exporter.daemon.reload import Reloader
from exporter.evaluation.verdicts import Policy
from exporter.publication.publication import PublishOptions
from exporter.status import BaselineStatus, HistoryStatus, ProcessStatus


def policy_of(settings: Settings) -> Policy:
    """The parameters of an evaluation."""
    return Policy(**asdict(settings.verdicts))


def publish_options_of(settings: Settings) -> PublishOptions:
    """The limits of a publication."""
    return PublishOptions(
        partition_series=settings.publish.partition_series,
        partition_series_limit=settings.publish.partition_series_limit,
        suspects_limit=settings.publish.suspects_limit,
        blocked_groups_limit=settings.publish.blocked_groups_limit,
        transactional_ids=settings.publish.transactional_ids,
        external_url=settings.publish.external_url,
    )


def process_status(
    reloader: Reloader | None,
    *,
    started_at_ms: int,
    baseline: BaselineStatus | None = None,
    history: HistoryStatus | None = None,
) -> ProcessStatus:
    """Status of the process, for all clusters."""
    return ProcessStatus(
        version=__version__,
        python_version=platform.python_version(),
        started_at_ms=started_at_ms,
        baseline=baseline,
        history=history,
        settings_reloaded=True if reloader is None else reloader.status.succeeded,
        settings_loaded_at_ms=started_at_ms if reloader is None else reloader.status.last_success_at_ms,
    )
