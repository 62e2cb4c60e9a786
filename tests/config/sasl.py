"""The SASL settings of a cluster that has some."""

from __future__ import annotations

from exporter.config.kafka_section import SaslSettings
from exporter.config.settings import ClusterSettings, Settings


def sasl_of(settings: Settings | ClusterSettings) -> SaslSettings:
    assert settings.kafka.sasl is not None
    return settings.kafka.sasl
