"""Paths and URIs of folders: which are taken, which are refused with what to write, and that no secret is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.cli import main
from exporter.pipeline.connectors import PlaceError, connectors_of, delta_options, delta_uri, spark_path, spark_settings
from exporter.storage.faults import StoreError
from exporter.storage.location import Location, parse
from exporter.storage.objects import ObjectPath
from exporter.storage.places import place_of
from exporter.storage.s3 import s3_settings


@pytest.mark.parametrize(
    "path", ["/var/lib/history", "history", "./a:b", "C:history", "with space/ü", "2026-11-24T07:00"]
)
def test_a_path_is_a_path_whatever_is_in_it(path: str) -> None:
    assert parse(path) == Path(path)


@pytest.mark.parametrize(
    "uri", ["file:///var/a%20b", "file:/var/a%20b", "file://localhost/var/a%20b", "FILE:///var/a%20b"]
)
def test_a_file_uri_is_the_path_in_it(uri: str) -> None:
    assert parse(uri) == Path("/var/a b")


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://bucket/a/b/", Location("s3", "bucket", "a/b")),
        ("s3a://bucket/a/b", Location("s3", "bucket", "a/b")),
        ("S3://bucket", Location("s3", "bucket", "")),
        ("gs://bucket/a", Location("gs", "bucket", "a")),
        (
            "abfss://data@account.dfs.core.windows.net/a",
            Location("abfs", "data@account.dfs.core.windows.net", "a"),
        ),
    ],
)
def test_an_object_store_has_the_name_that_others_have_for_it(uri: str, location: Location) -> None:
    assert parse(uri) == location


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("s3:bucket/key", "must be s3://BUCKET/KEY$"),
        ("s3://B/key", "must be s3://BUCKET/KEY$"),
        ("s3:///key", "must be s3://BUCKET/KEY$"),
        ("s3://AKIA:hunter2@bucket/key", "without credentials, which are environment variables"),
        ("s3://bucket/key?access_key=hunter2", "without a query: endpoint, region and credentials are environment"),
        ("s3://bucket/a//b", "with a KEY of ASCII letters"),
        ("s3://bucket/../b", "with a KEY of ASCII letters"),
        ("s3://bucket/a b", "with a KEY of ASCII letters"),
        ("abfs://data/a", "must be abfs://CONTAINER@ACCOUNT"),
        ("abfs://data@account.dfs.core.chinacloudapi.cn/a", "must be abfs://CONTAINER@ACCOUNT.dfs.core.windows.net"),
        ("hdfs://name/a", "must be a path, or a URI with file:, s3:, gs: or abfs:; hdfs: is not supported"),
        ("file://server/share", "with an absolute path on this machine"),
        ("file:relative", "with an absolute path on this machine"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_write(uri: str, why: str) -> None:
    """Also a secret in a URI is refused, and not repeated."""
    with pytest.raises(ValueError, match=why) as refused:
        parse(uri)

    assert "hunter2" not in str(refused.value)


def test_the_parts_of_a_place_in_a_store_are_those_of_a_path() -> None:
    """The callers use both in the same way."""
    place = place_of("s3://bucket/history")
    file = place / "v1" / "cluster_id=%C3%A9" / "x.parquet"

    assert str(file) == "s3://bucket/history/v1/cluster_id=%C3%A9/x.parquet"
    assert (file.name, file.parent.name, file.parts[-2:]) == ("x.parquet", "cluster_id=%C3%A9", file.parts[-2:])
    assert str(file.with_name("y")) == "s3://bucket/history/v1/cluster_id=%C3%A9/y"
    assert isinstance(file, ObjectPath)
    assert isinstance(place, ObjectPath)
    assert file.relative_to(place).as_posix() == "v1/cluster_id=%C3%A9/x.parquet"
    assert str(place_of("s3://bucket") / "a") == "s3://bucket/a"
    assert str((place_of("s3://bucket") / "a").parent) == "s3://bucket"
    assert str(place_of("s3://bucket/.kafka/a/b").parent) == "s3://bucket/.kafka/a"


@pytest.mark.parametrize("character", "#?%[]{}\\`")
def test_a_path_that_spark_would_read_as_another_is_refused_by_the_pipeline(
    character: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exporter itself may have its files there."""
    history = tmp_path / f"a{character}b"
    (history / "v1").mkdir(parents=True)
    why = "must be a path without # ? % [ ] { } \\ and `, which Spark or Delta would read as something else"

    assert place_of(str(history)) == history
    with pytest.raises(PlaceError, match=f"^{re.escape(f'{history}: {why}')}$"):
        connectors_of([Path("/a"), history])
    assert main(["pipeline", "run", f"--history={history}", f"--tables={tmp_path / 'tables'}"]) != 0
    assert f"{history}: {why}" in capsys.readouterr().err
    assert not (tmp_path / "tables").exists()


def test_every_library_has_its_own_name_of_a_place() -> None:
    abfs = "abfs://data@account.dfs.core.windows.net/a"
    places = [place_of(text) for text in ("/a", "s3://bucket/a", "gs://bucket/a", abfs)]

    assert [spark_path(place) for place in places] == ["/a", "s3a://bucket/a", "gs://bucket/a", abfs.replace(":", "s:")]
    assert [delta_uri(place) for place in places] == ["/a", "s3://bucket/a", "gs://bucket/a", abfs.replace(":", "s:")]


def test_endpoint_and_style_come_from_the_environment_for_all_libraries() -> None:
    """AWS without an endpoint; a compatible store has the bucket in the path, unless a variable says otherwise."""
    place = place_of("s3://bucket/a")
    compatible = {"AWS_ENDPOINT_URL": "http://127.0.0.1:7070", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    virtual = {**compatible, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}
    first = {**compatible, "AWS_ENDPOINT_URL_S3": "https://my_store:9000", "AWS_REGION": "eu-west-1"}

    assert (s3_settings({}).endpoint, s3_settings({}).region, s3_settings({}).is_path_style) == (None, None, False)
    assert (s3_settings(compatible).is_path_style, s3_settings(virtual).is_path_style) == (True, False)
    assert (s3_settings(first).endpoint, s3_settings(first).region) == ("https://my_store:9000", "eu-west-1")
    made = spark_settings([place], compatible)
    assert made["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:7070"
    assert made["spark.hadoop.fs.s3a.path.style.access"] == "true"
    options = delta_options(place, compatible)
    assert options is not None
    assert (options["aws_allow_http"], options["aws_virtual_hosted_style_request"]) == ("true", "false")
    assert "hunter2" not in f"{made}{options}"  # each library reads secrets itself: Spark's settings are arguments
    assert (spark_settings([Path("/a")], compatible), delta_options(Path("/a"), compatible)) == ({}, None)


@pytest.mark.parametrize("endpoint", ["minio:9000", "minio", "ftp://minio", "http://key:hunter2@minio:9000"])
def test_an_endpoint_that_some_library_would_pass_over_is_refused(endpoint: str) -> None:
    """Arrow would ask AWS instead, with the store's credentials."""
    with pytest.raises(StoreError, match="must be http://HOST:PORT or https://HOST:PORT") as refused:
        s3_settings({"AWS_ENDPOINT_URL": endpoint})
    assert "hunter2" not in str(refused.value)
