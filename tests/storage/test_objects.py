"""Objects of a real server: whole or not at all, listed, removed, and faults that name the object and the cure."""

from __future__ import annotations

import os
import time

import pytest

from exporter.storage.faults import StoreError
from exporter.storage.places import atomic_write, in_parallel, place_of, write_whole
from tests.storage.conftest import Bucket
from tests.storage.fault_proxy import Fault, FaultProxy

BIG = 24 * 1024 * 1024
"""Is uploaded in parts."""


def test_objects_are_written_listed_read_and_removed(bucket: Bucket) -> None:
    """Keys with escapes too, which are names of clusters: the same name for the server as for the reader."""
    root = bucket.place("history")
    for name in ("cluster_id=%C3%A9%2F/date=1/a.parquet", "cluster_id=x/date=1/b.parquet", "cluster_id=x/c.txt"):
        write_whole(root / name, name, beside="unused")

    assert bucket.objects() == {f"history/{path.relative_to(root)}" for path in root.rglob("*")}
    assert sorted(path.name for path in root.glob("*/date=*/*.parquet")) == ["a.parquet", "b.parquet"]
    path = root / "cluster_id=%C3%A9%2F" / "date=1" / "a.parquet"
    assert path.read_text() == "cluster_id=%C3%A9%2F/date=1/a.parquet"
    assert (path.stat().st_size, path.exists(), root.is_dir(), path.is_file()) == (37, True, True, True)

    path.unlink()
    path.unlink(missing_ok=True)
    path.parent.rmdir()
    with pytest.raises(OSError, match="not empty"):
        root.rmdir()
    assert (path.exists(), len(bucket.objects())) == (False, 2)
    root.rmtree()
    assert bucket.objects() == set()


def test_what_is_missing_is_missing_and_no_fault(bucket: Bucket) -> None:
    missing = bucket.place("nothing")

    assert (missing.exists(), missing.is_dir(), list(missing.rglob("*"))) == (False, False, [])
    for read in (missing.stat, missing.read_bytes, missing.unlink):
        with pytest.raises(FileNotFoundError):
            read()


def test_an_object_appears_whole_or_not_at_all(bucket: Bucket, proxy: FaultProxy) -> None:
    """Of an upload in parts one part fails: the parts before it are not completed to half an object."""
    proxy.weather = lambda _, path: Fault(refusal=(400, "BadDigest")) if "partNumber=2" in path else None
    with pytest.raises(StoreError, match=f"^s3://{bucket.name}/big: BadDigest"):
        bucket.place("big").write_bytes(os.urandom(BIG))
    assert bucket.objects() == set()

    with pytest.raises(TypeError), atomic_write(bucket.place("small"), beside="unused") as file:
        file.write(b"half" + None)  # type: ignore[operator]
    assert bucket.objects() == set()


def test_a_large_object_takes_a_temporary_file_and_no_memory(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a day's files are joined."""
    monkeypatch.setattr("exporter.storage.places.MEMORY_BYTES_MAX", 1024)
    content = os.urandom(1_000_000)
    with atomic_write(bucket.place("joined"), beside="unused") as file:
        file.write(content)

    assert (bucket.folder / "joined").read_bytes() == content


def test_a_store_that_is_overloaded_is_tried_again(bucket: Bucket, proxy: FaultProxy) -> None:
    refusals = iter([Fault(refusal=(503, "SlowDown"))] * 2)
    proxy.weather = lambda *_: next(refusals, None)
    bucket.place("a").write_bytes(b"1")

    assert bucket.objects() == {"a"}


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ((503, "SlowDown"), "the store is overloaded"),
        ((400, "ExpiredToken"), "ExpiredToken .renew the credentials in the environment"),
        ((403, "RequestTimeTooSkewed"), "correct the clock of this machine"),
        ((403, "AccessDenied"), "check the credentials in the environment"),
        ((404, "NoSuchBucket"), "create the bucket"),
    ],
)
def test_a_fault_names_the_object_and_what_to_do(
    bucket: Bucket, proxy: FaultProxy, refusal: tuple[int, str], reason: str
) -> None:
    proxy.weather = lambda *_: Fault(refusal=refusal)
    with pytest.raises(StoreError, match=f"^s3://{bucket.name}/folder/a: .*{reason}"):
        bucket.place("folder/a").write_bytes(b"1")


def test_wrong_credentials_and_a_missing_bucket_are_named(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="create the bucket"):
        write_whole(place_of("s3://no-such-bucket/a"), "", beside="unused")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(StoreError, match="check the credentials") as refused:
        list(bucket.place("a").rglob("*"))

    assert "another-secret" not in str(refused.value)


def test_many_requests_are_made_at_once(bucket: Bucket, proxy: FaultProxy) -> None:
    """Results in their order: a day of files is not read one round trip after the other."""
    for number in range(20):
        bucket.place(f"{number}").write_bytes(b"%d" % number)
    proxy.weather = lambda *_: Fault(delay_s=0.2)
    paths = [bucket.place(f"{number}") for number in range(20)]
    begun = time.monotonic()
    found = list(in_parallel(lambda path: int(path.read_bytes()), paths, paths[0]))

    assert found == list(range(20))
    assert time.monotonic() - begun < 20 * 2 * 0.2 / 2
