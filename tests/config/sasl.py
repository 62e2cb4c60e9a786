"""The SASL settings of a cluster that has some."""

from __future__ import annotations

from exporter.config.kafka_section import SaslSettings
from exporter.config.settings import ClusterSettings, Settings


def sasl_of(settings: Settings | ClusterSettings) -> SaslSettings:
    kafka = settings.kafka if isinstance(settings, Settings) else settings.settings.kafka
    assert kafka.sasl is not None
    return kafka.sasl
