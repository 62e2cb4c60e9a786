"""Places in settings, of the doctor and of the baseline file: checked at the start, never waited for, without secrets."""

from __future__ import annotations

import json
import time

import pytest

from exporter.config.loading import ConfigurationError, load
from exporter.daemon.baseline_file import BaselineFile
from exporter.doctor.findings import FindingLevel
from exporter.doctor.local import local_findings
from exporter.storage.faults import StoreError
from exporter.storage.small_file import FetchedObject
from hangbench.waiting import until
from tests.baselines import DAY_MS, RULES, document
from tests.evaluation.builders import NOW_MS
from tests.storage.conftest import Bucket
from tests.storage.fault_proxy import Fault, FaultProxy


@pytest.mark.parametrize("name", ["history.directory", "baseline.file"])
@pytest.mark.parametrize("place", ["s3://key:hunter2@bucket/a", "s3://bucket/a?secret_key=hunter2", "ftp://host/a"])
def test_a_place_that_cannot_be_used_is_refused_at_the_start(name: str, place: str) -> None:
    """With the setting, and without the secret that was written into it."""
    with pytest.raises(ConfigurationError) as refused:
        load(file=None, environment={}, flags={"kafka.bootstrap.servers": "localhost:9092", name: place})

    (problem,) = refused.value.problems
    assert name in problem
    assert "hunter2" not in problem


def test_the_doctor_writes_to_the_store(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves nothing there; it says what is wrong before a first cycle would."""
    bucket.place("baselines.json").write_bytes(b"{}")
    flags = {"history.directory": str(bucket.place("history")), "baseline.file": str(bucket.place("baselines.json"))}
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "localhost:9092", **flags}).settings
    before = {finding.check: finding for finding in local_findings(settings, state_path=None)}
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    after = {finding.check: finding for finding in local_findings(settings, state_path=None)}

    assert before["history"].result == f"s3://{bucket.name}/history can be written"
    assert "baseline" not in before
    assert (after["history"].level, after["baseline"].level) == (FindingLevel.LIMITED, FindingLevel.LIMITED)
    assert "check the credentials in the environment" in after["history"].result
    assert bucket.objects() == {"baselines.json"}


def test_a_baseline_in_a_store_is_fetched_again_when_it_changes_and_never_waited_for(
    bucket: Bucket, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store is away the last content is used; an evaluation does not notice how slow it is."""
    monkeypatch.setattr(FetchedObject.__init__, "__kwdefaults__", {"every_s": 0.05})
    place = bucket.place("baselines.json")
    place.write_bytes(json.dumps(document()).encode())
    file = BaselineFile(place, RULES, age_ms_max=7 * DAY_MS, wall_clock=lambda: NOW_MS / 1000)
    assert file.current("cluster-1").made_at_ms == NOW_MS - DAY_MS

    proxy.weather = lambda method, _: Fault(delay_s=2) if method in {"GET", "HEAD"} else None
    place.write_bytes(json.dumps(document(made_at_ms=NOW_MS - 1), indent=1).encode())
    begun = time.monotonic()
    for _ in range(50):
        assert file.current("cluster-1").made_at_ms == NOW_MS - DAY_MS
    assert time.monotonic() - begun < 1

    proxy.weather = lambda *_: None
    until(lambda: file.current("cluster-1").made_at_ms == NOW_MS - 1)
    proxy.weather = lambda *_: Fault(refusal=(503, "SlowDown"))
    seen = len(proxy.requests)
    until(lambda: len(proxy.requests) >= seen + 4)
    assert file.current("cluster-1").made_at_ms == NOW_MS - 1

    proxy.weather = lambda *_: None
    place.unlink()
    until(lambda: file.current("cluster-1").made_at_ms == 0)
    assert file.status.failure == "it cannot be read: No such file or directory"


def test_a_baseline_that_is_missing_in_the_store_is_named(bucket: Bucket) -> None:
    file = BaselineFile(bucket.place("none"), RULES, age_ms_max=1, wall_clock=lambda: NOW_MS / 1000)
    file.current()

    assert file.status.failure == "it cannot be read: No such file or directory"
    with pytest.raises((StoreError, FileNotFoundError)):
        bucket.place("none").stat()
