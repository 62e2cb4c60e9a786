"""Rules for Prometheus and Alertmanager, and what is made from them: a mixin and PrometheusRules.

The YAML files are the source: they load as they are. Nothing here is part of the exporter.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
