"""Access of Spark and deltalake to a place: their names of it, their settings, and the jars of Spark's connectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyspark

from exporter.storage.location import refusal_by_spark
from exporter.storage.objects import ObjectPath
from exporter.storage.places import Place
from exporter.storage.s3 import s3_settings

DELTA: Final = "io.delta:delta-spark"
DELTA_VERSION: Final = "4.4.0"
"""Version in constraints/spark-jars.xml, for the version of Spark there."""
KAFKA: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
HADOOP_AWS: Final = "org.apache.hadoop:hadoop-aws"
AWS_SDK_VERSION: Final = "2.35.4"
"""Version in constraints/spark-jars.xml: of its modules the few that the connector uses, in place of all of AWS' (686
MB).
"""
AWS_MODULES: Final = ("s3-transfer-manager", "sts", "apache-client")
NOT_NEEDED: Final = (
    "software.amazon.awssdk:bundle,io.netty:*,org.slf4j:*,commons-logging:*,org.wildfly.openssl:*,"
    "io.unitycatalog:*,io.delta:delta-kernel-*,org.antlr:*"
)
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
DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    # A commit puts rows into other places than those that it replaces: a transaction that is closed leaves `open`.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    # VACUUM and RESTORE start that many tasks, by default 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}
_REQUEST_LIMITS: Final = {"connect_timeout": "5s", "timeout": "60s", "max_retries": "5", "retry_timeout": "60s"}


class JarsError(Exception):
    """Jars are missing where they must be; the message is the reason."""


class PlaceError(OSError):
    """Spark cannot use a path of a disk; the message is the reason."""


def spark_path(place: Place) -> str:
    """The name by which Spark reads and writes it; Delta's SQL takes absolute paths only."""
    return str(place.absolute()) if isinstance(place, Path) else _named(place, SPARK_SCHEMES)


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


def spark_settings(places: Iterable[Place], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns Spark's settings for these places; it reads credentials from the environment itself."""
    if not is_in_s3(places):
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
    own = Path(pyspark.__file__).with_name("jars")
    if folder is not None:
        jars = sorted(folder.glob("*.jar"))
        if not jars:
            raise JarsError(f"--jars {folder}: {'holds no jar' if folder.is_dir() else 'there is no such folder'}")
        if DELTA in connectors and not (_has(folder, DELTA) or _has(own, DELTA)):
            raise JarsError(
                f"--jars {folder}: has no jar of Delta: add those of {', '.join(_packages(DELTA, own))}, "
                "or leave --jars out, so that Spark gets them by Maven"
            )
        return {"spark.jars": ",".join(str(jar.resolve()) for jar in jars)}
    missing = [each for each in connectors if not _has(own, each)]
    packages = [package for each in missing for package in _packages(each, own)]
    return {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": NOT_NEEDED} if packages else {}


def require_delta(spark: Any) -> None:
    """Raises JarsError if the session of `spark-submit` has no jar of Delta."""
    java = spark._jvm  # noqa: SLF001 - PySpark has no other access to Java
    if not java.org.apache.spark.util.Utils.classIsLoadable(DELTA_SETTINGS["spark.sql.extensions"]):
        packages = ",".join(_packages(DELTA, Path()))
        raise JarsError(f"Spark has no jar of Delta: give spark-submit --packages {packages}, or these as --jars")


def _has(folder: Path, connector: str) -> bool:
    return any(folder.glob(f"{connector.partition(':')[2]}[-_]*.jar"))


def _packages(connector: str, own: Path) -> Iterable[str]:
    if connector == KAFKA:
        yield f"{KAFKA}:{pyspark.__version__}"
        return
    if connector == DELTA:
        yield f"{DELTA}_{pyspark.__version__.rpartition('.')[0]}_2.13:{DELTA_VERSION}"
        yield f"io.delta:delta-storage:{DELTA_VERSION}"
        return
    hadoop = next(own.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    yield f"{HADOOP_AWS}:{hadoop}"
    yield from (f"software.amazon.awssdk:{module}:{AWS_SDK_VERSION}" for module in AWS_MODULES)


def connectors_of(places: Collection[Place]) -> tuple[str, ...]:
    """The connectors that Spark needs for these places and that Maven has; those of gs and abfs are in `--jars`.

    Raises PlaceError.
    """
    for place in places:
        if isinstance(place, Path) and (why := refusal_by_spark(place)) is not None:
            raise PlaceError(f"{place}: {why}")
    return (DELTA, HADOOP_AWS) if is_in_s3(places) else (DELTA,)


def is_in_s3(places: Iterable[Place]) -> bool:
    return any(isinstance(place, ObjectPath) and place.location.scheme == "s3" for place in places)
