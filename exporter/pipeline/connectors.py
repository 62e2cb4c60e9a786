"""Access of Spark and deltalake to a place: their names of it, their settings, and the jars of Spark's connectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyspark

from exporter.storage.objects import ObjectPath
from exporter.storage.places import Place
from exporter.storage.s3 import s3_settings

KAFKA: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
HADOOP_AWS: Final = "org.apache.hadoop:hadoop-aws"
AWS_SDK_VERSION: Final = "2.35.4"
"""Version in constraints/spark-jars.xml: of its modules the few that the connector uses, in place of all of AWS' (686
MB).
"""
AWS_MODULES: Final = ("s3-transfer-manager", "sts", "apache-client")
NOT_NEEDED: Final = "software.amazon.awssdk:bundle,io.netty:*,org.slf4j:*,commons-logging:*,org.wildfly.openssl:*"
"""Spark has them, or nothing uses them."""
SPARK_SCHEMES: Final = {"s3": "s3a", "gs": "gs", "abfs": "abfss"}
DELTA_SCHEMES: Final = {"s3": "s3", "gs": "gs", "abfs": "abfss"}
CREDENTIALS: Final = (
    # These providers read the driver's environment, which Spark hands to its workers.
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    # Profiles, web identities, roles of containers and machines.
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)
_REQUEST_LIMITS: Final = {"connect_timeout": "5s", "timeout": "60s", "max_retries": "5", "retry_timeout": "60s"}


class JarsError(Exception):
    """Jars are missing where they must be; the message is the reason."""


def spark_path(place: Place) -> str:
    """The name by which Spark reads and writes it."""
    return str(place) if isinstance(place, Path) else _named(place, SPARK_SCHEMES)


def delta_uri(place: Place) -> str:
    """The name that deltalake has for it."""
    return str(place) if isinstance(place, Path) else _named(place, DELTA_SCHEMES)


def _named(place: ObjectPath, schemes: Mapping[str, str]) -> str:
    return str(place).replace(f"{place.location.scheme}:", f"{schemes[place.location.scheme]}:", 1)


def delta_options(place: Place, environment: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Returns deltalake's settings for the place; it reads credentials from the environment itself."""
    if isinstance(place, Path):
        return None
    if place.location.scheme != "s3":
        return dict(_REQUEST_LIMITS)
    settings = s3_settings(environment)
    chosen = {
        "aws_endpoint": settings.endpoint,
        "aws_region": settings.region,
        "aws_virtual_hosted_style_request": str(not settings.is_path_style).lower(),
        "aws_allow_http": str(not settings.is_encrypted).lower(),
    }
    return {**_REQUEST_LIMITS, **{name: value for name, value in chosen.items() if value is not None}}


def parquet_files(folder: Place) -> tuple[Place, ...]:
    """Returns the files that a job of Spark has written there, but those that a worker given up may still write."""
    found: list[Place] = list(folder.rglob("*.parquet"))
    return tuple(
        path
        for path in sorted(found, key=str)
        if not any(part.startswith("_") for part in path.relative_to(folder).parts)  # type: ignore[arg-type]
    )


def spark_settings(places: Iterable[Place], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns Spark's settings for these places; it reads credentials from the environment itself."""
    if not any(isinstance(place, ObjectPath) and place.location.scheme == "s3" for place in places):
        return {}
    settings = s3_settings(environment)
    chosen = {
        "endpoint": settings.endpoint,
        "endpoint.region": settings.region,
        "path.style.access": str(settings.is_path_style).lower(),
        "aws.credentials.provider": ",".join(CREDENTIALS),
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in chosen.items() if value is not None}


def jars_of(folder: Path | None, connectors: Iterable[str]) -> dict[str, str]:
    """Settings of Spark that load these connectors: from a folder, or by Maven where Spark lacks them.

    Raises JarsError for a folder without jars.
    """
    if folder is not None:
        jars = sorted(folder.glob("*.jar"))
        if not jars:
            raise JarsError(f"--jars {folder}: holds no jar")
        return {"spark.jars": ",".join(str(jar.resolve()) for jar in jars)}
    own = Path(pyspark.__file__).with_name("jars")
    missing = [each for each in connectors if not any(own.glob(f"{each.partition(':')[2]}-*.jar"))]
    packages = [package for each in missing for package in _packages(each, own)]
    return {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": NOT_NEEDED} if packages else {}


def _packages(connector: str, own: Path) -> Iterable[str]:
    if connector == KAFKA:
        yield f"{KAFKA}:{pyspark.__version__}"
        return
    hadoop = next(own.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    yield f"{HADOOP_AWS}:{hadoop}"
    yield from (f"software.amazon.awssdk:{module}:{AWS_SDK_VERSION}" for module in AWS_MODULES)


def connectors_of(places: Iterable[Place]) -> tuple[str, ...]:
    """The connectors that Spark needs for these places and that Maven has; those of gs and abfs are in `--jars`."""
    is_s3 = any(isinstance(place, ObjectPath) and place.location.scheme == "s3" for place in places)
    return (HADOOP_AWS,) if is_s3 else ()
