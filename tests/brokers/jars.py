"""Jars that the tests need besides Kafka's own: tiered storage, Spark's connectors, S3Proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hangbench.kafka.maven import jars_of

TIERED_POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tiered</groupId><artifactId>tiered</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-storage</artifactId><version>{version}</version>
      <classifier>test</classifier>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
  </dependencies>
</project>
"""
S3PROXY_POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>s3proxy</groupId><artifactId>s3proxy</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.gaul</groupId><artifactId>s3proxy</artifactId><version>2.6.0</version></dependency>
  </dependencies>
</project>
"""
SPARK_POM: Final = Path(__file__).parents[2] / "constraints" / "spark-jars.xml"


def tiered_storage_jars(version: str) -> Path:
    """The folder with Kafka's own LocalTieredStorage: a remote storage that is a folder."""
    return jars_of(f"tiered-{version}", f"the tests of Kafka's storage {version}", TIERED_POM.format(version=version))


def spark_jars() -> Path:
    """The folder with the jars of Delta and of Spark's connectors, for the pinned version of PySpark."""
    return jars_of("spark", "the jars of Spark", SPARK_POM.read_text(encoding="utf-8"))


def s3proxy_jars() -> Path:
    """The folder with S3Proxy, a server of S3 that ignores the condition of a write."""
    return jars_of("s3proxy", "S3Proxy", S3PROXY_POM)
