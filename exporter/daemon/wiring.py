"""Converts settings into the parameters of each room: the rooms do not know settings."""

from __future__ import annotations

from dataclasses import asdict, fields

from exporter.config.settings import Settings
from exporter.evaluation.verdicts import Policy
from exporter.publication.publication import PublishOptions


def policy_of(settings: Settings) -> Policy:
    """The parameters of an evaluation."""
    return Policy(**asdict(settings.verdicts), **asdict(settings.blocked))


def publish_options_of(settings: Settings) -> PublishOptions:
    """The limits of a publication."""
    return PublishOptions(**{option.name: getattr(settings.publish, option.name) for option in fields(PublishOptions)})
