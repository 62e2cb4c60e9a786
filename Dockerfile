# The image of the exporter. Build it with the base pinned by digest:
#   docker build --build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:... -t kafka-transaction-exporter:0.1.0 .
# and the same program with Spark and Java:
#   docker build --target pipeline --build-arg ... -t kafka-transaction-exporter-pipeline:0.1.0 .
# tests/helm/test_image.py runs the steps of the exporter's image without an engine.
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
# Packages first: they change less often than the code. The environment has no pip of its own.
COPY constraints/runtime.txt constraints/dev.txt constraints/
RUN python -m venv --without-pip /opt/kafka-transaction-exporter && \
    python -m pip --python /opt/kafka-transaction-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
      --only-binary=:all: --require-hashes --requirement constraints/runtime.txt
# The build tool by its pinned hash as well, and in an environment that stays behind. --force-reinstall, as the build leaves
# metadata in this folder that some versions of Python let pip take for an installed package.
COPY pyproject.toml README.md LICENSE ./
COPY exporter exporter
RUN sed -n '/^setuptools==/,/^ *#/p' constraints/dev.txt > /src/build-requirements.txt && \
    python -m venv --without-pip /src/build-environment && \
    python -m pip --python /src/build-environment/bin/python install --no-cache-dir --disable-pip-version-check --no-deps \
      --only-binary=:all: --require-hashes --requirement /src/build-requirements.txt && \
    python -m pip --python /src/build-environment/bin/python wheel --no-cache-dir --disable-pip-version-check --no-deps \
      --no-index --no-build-isolation --wheel-dir /src/wheels /src && \
    python -m pip --python /opt/kafka-transaction-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-deps --no-index --force-reinstall /src/wheels/*.whl

# PySpark is published as source alone: the pinned build tool makes a wheel of it.
FROM build AS pipeline-build
COPY constraints/spark.txt constraints/
RUN python -m pip --python /src/build-environment/bin/python wheel --no-cache-dir --disable-pip-version-check --no-deps \
      --only-binary=:all: --no-binary=pyspark --no-build-isolation --require-hashes --wheel-dir /src/spark-wheels \
      --requirement constraints/spark.txt && \
    python -m pip --python /opt/kafka-transaction-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-deps --no-index /src/spark-wheels/*.whl && \
    cp /opt/kafka-transaction-exporter/bin/kafka-transaction-exporter /opt/kafka-transaction-exporter/pipeline.py

FROM ${PYTHON_IMAGE} AS pipeline
LABEL org.opencontainers.image.title="kafka-transaction-exporter-pipeline" \
      org.opencontainers.image.description="kafka-transaction-exporter with Spark: tables and baselines of its history" \
      org.opencontainers.image.source="https://github.com/kafka-transaction-exporter/kafka-transaction-exporter" \
      org.opencontainers.image.licenses="Apache-2.0"
# Debian keeps no old versions, so a pinned one would end building. Spark does not start for a user without a name and home.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends openjdk-17-jre-headless && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --gid 65532 exporter && \
    useradd --uid 65532 --gid 65532 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin exporter
COPY LICENSE /licenses/LICENSE
COPY --from=pipeline-build /opt/kafka-transaction-exporter /opt/kafka-transaction-exporter
# Spark's workers are of this Python, and its own files are under /tmp.
ENV PATH=/opt/kafka-transaction-exporter/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/kafka-transaction-exporter/bin/python \
    SPARK_LOCAL_DIRS=/tmp
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["kafka-transaction-exporter"]

# The last one is what is built when no target is named.
FROM ${PYTHON_IMAGE} AS exporter
LABEL org.opencontainers.image.title="kafka-transaction-exporter" \
      org.opencontainers.image.description="Prometheus exporter of open, late and hanging Kafka transactions" \
      org.opencontainers.image.source="https://github.com/kafka-transaction-exporter/kafka-transaction-exporter" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY LICENSE /licenses/LICENSE
COPY --from=build /opt/kafka-transaction-exporter /opt/kafka-transaction-exporter
# Nothing is written at run time but the state file, where there is a place for it: the root may be read-only.
ENV PATH=/opt/kafka-transaction-exporter/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Numeric, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 9814
ENTRYPOINT ["kafka-transaction-exporter"]
CMD ["serve"]
