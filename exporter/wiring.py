"""Settings turned into what each room takes: the rooms do not know of settings."""

from __future__ import annotations

from exporter.config.settings import Settings
from exporter.evaluation.verdicts import Policy
from exporter.publication.facts import PublishOptions


def policy_of(settings: Settings) -> Policy:
    """What an evaluation is told."""
    return Policy(
        late_padding_ms=settings.verdicts.late_padding_ms,
        max_timeout_fallback_ms=settings.verdicts.max_timeout_fallback_ms,
        overdue_slack_ms=settings.verdicts.overdue_slack_ms,
        stuck_after_ms=settings.verdicts.stuck_after_ms,
    )


def publish_options_of(settings: Settings) -> PublishOptions:
    """How much is published."""
    return PublishOptions(
        partition_series=settings.publish.partition_series,
        partition_series_limit=settings.publish.partition_series_limit,
        suspects_limit=settings.publish.suspects_limit,
        transactional_ids=settings.publish.transactional_ids,
    )
