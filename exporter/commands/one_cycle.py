"""Makes of one cycle what `serve` would publish after its first one."""

from __future__ import annotations

import platform
import time

from exporter import __version__
from exporter.config.settings import ClusterSettings
from exporter.daemon.wiring import publish_options_of
from exporter.evaluation.verdicts import Evaluation
from exporter.publication.publication import Publication
from exporter.status import ClusterStatus, ProcessStatus


def publication_of(cluster: ClusterSettings, evaluation: Evaluation | None) -> Publication:
    """Returns the publication of one cycle; the cycle has failed if there is no evaluation."""
    settings = cluster.settings
    snapshot = None if evaluation is None else evaluation.snapshot
    status = ClusterStatus(
        cycles=1,
        failed_cycles=0 if snapshot is not None else 1,
        last_cycle_duration_seconds=None
        if snapshot is None
        else (snapshot.finished_at_ms - snapshot.taken_at_ms) / 1000,
        last_cycle_succeeded=snapshot is not None,
        last_success_at_ms=None if snapshot is None else snapshot.finished_at_ms,
        snapshot_taken_at_ms=None if snapshot is None else snapshot.taken_at_ms,
        interval_ms=settings.scan.interval_ms,
        stale_after_cycles=settings.publish.stale_after_cycles,
    )
    started_at_ms = int(time.time() * 1000) if snapshot is None else snapshot.taken_at_ms
    process = ProcessStatus(version=__version__, python_version=platform.python_version(), started_at_ms=started_at_ms)
    options = publish_options_of(settings)
    return Publication(evaluation=evaluation, process=process, status=status, options=options, cluster=cluster.name)
