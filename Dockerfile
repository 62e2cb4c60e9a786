# The images of the exporter and of its pipeline. `make images` builds both, docs/release.md says how.
# docs/decisions/0026-images.md has the reasons for what is in them. Build releases with the base pinned by its digest:
#   make images DEBIAN_IMAGE=debian:trixie-slim@sha256:...
ARG DEBIAN_IMAGE=debian:trixie-slim

# Both images have Debian's Python in the same place: the environment that is made here is copied into them.
FROM ${DEBIAN_IMAGE} AS build
ENV PYTHONDONTWRITEBYTECODE=1
# Debian keeps no old versions, so a pinned one would end building.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends binutils ca-certificates netbase openssl python3 python3-pip python3-venv tzdata && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /src
# Packages first: they change less often than the code. The environment has no pip of its own.
COPY constraints/runtime.txt constraints/dev.txt constraints/
RUN python3 -m venv --without-pip /opt/kafka-transaction-exporter && \
    python3 -m pip --python /opt/kafka-transaction-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-compile --only-binary=:all: --require-hashes --requirement constraints/runtime.txt
# The build tool by its pinned hash as well, and in an environment that is not copied. --force-reinstall, as the build leaves
# metadata in this folder that some versions of Python let pip take for an installed package.
COPY pyproject.toml README.md LICENSE ./
COPY exporter exporter
# exporter/artifacts has links to these.
COPY alerts/alerts.yaml alerts/recording.yaml alerts/
COPY alerts/runbooks alerts/runbooks
COPY grafana/fleet.json grafana/overview.json grafana/partition.json grafana/
RUN sed -n '/^setuptools==/,/^ *#/p' constraints/dev.txt > /src/build-requirements.txt && \
    python3 -m venv --without-pip /src/build-environment && \
    python3 -m pip --python /src/build-environment/bin/python install --no-cache-dir --disable-pip-version-check --no-deps \
      --only-binary=:all: --require-hashes --requirement /src/build-requirements.txt && \
    python3 -m pip --python /src/build-environment/bin/python wheel --no-cache-dir --disable-pip-version-check --no-deps \
      --no-index --no-build-isolation --wheel-dir /src/wheels /src && \
    python3 -m pip --python /opt/kafka-transaction-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-compile --no-deps --no-index --force-reinstall /src/wheels/*.whl

# PySpark is published as source alone: the pinned build tool makes a wheel of it.
FROM build AS pipeline-build
# Java's package fails without the folder of manual pages.
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 && \
    apt-get update && \
    apt-get install --yes --no-install-recommends maven && \
    rm -rf /var/lib/apt/lists/*
COPY constraints/spark.txt constraints/spark-jars.xml constraints/spark-jars.sha256 constraints/
RUN python3 -m pip --python /src/build-environment/bin/python wheel --no-cache-dir --disable-pip-version-check --no-deps \
      --only-binary=:all: --no-binary=pyspark --no-build-isolation --require-hashes --wheel-dir /src/spark-wheels \
      --requirement constraints/spark.txt && \
    python3 -m pip --python /opt/kafka-transaction-exporter/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-compile --no-deps --no-index /src/spark-wheels/*.whl && \
    cp /opt/kafka-transaction-exporter/bin/kafka-transaction-exporter /opt/kafka-transaction-exporter/pipeline.py
# Delta and Spark's connectors for Kafka and S3, which PySpark does not carry: in the folder where Spark finds it without an option.
WORKDIR /opt/kafka-transaction-exporter/lib/python3.13/site-packages/pyspark/jars
RUN mvn --quiet --batch-mode --file /src/constraints/spark-jars.xml \
      org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies -DoutputDirectory="$PWD" && \
    sha256sum --check --quiet /src/constraints/spark-jars.sha256 && \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/kafka-transaction-exporter/lib

FROM ${DEBIAN_IMAGE} AS pipeline
LABEL org.opencontainers.image.title="kafka-transaction-exporter-pipeline" \
      org.opencontainers.image.description="kafka-transaction-exporter with Spark: tables and baselines of its history" \
      org.opencontainers.image.source="https://github.com/kafka-transaction-exporter/kafka-transaction-exporter" \
      org.opencontainers.image.licenses="Apache-2.0"
# Spark does not start for a user without a name and home.
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 && \
    apt-get update && \
    apt-get install --yes --no-install-recommends ca-certificates openjdk-21-jre-headless python3 && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --gid 65532 exporter && \
    useradd --uid 65532 --gid 65532 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin exporter
COPY LICENSE /licenses/LICENSE
COPY --from=pipeline-build /opt/kafka-transaction-exporter /opt/kafka-transaction-exporter
# The program, and the words that Spark gives to its pods on Kubernetes.
COPY examples/spark/entrypoint.sh /opt/kafka-transaction-exporter/bin/entrypoint.sh
# Spark's workers are of this Python, and its own files are under /tmp.
ENV PATH=/opt/kafka-transaction-exporter/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/kafka-transaction-exporter/bin/python \
    SPARK_HOME=/opt/kafka-transaction-exporter/lib/python3.13/site-packages/pyspark \
    SPARK_LOCAL_DIRS=/tmp
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["entrypoint.sh"]

# Without what the exporter never loads: Arrow's Flight and HDFS, headers, tests, stubs of types, AWS' other services, symbols.
# A path that is gone in a newer version ends the build.
FROM build AS exporter-build
WORKDIR /opt/kafka-transaction-exporter/lib/python3.13/site-packages
RUN rm -r pyarrow/include pyarrow/includes pyarrow/src pyarrow/libarrow_flight.so.* pyarrow/libarrow_python_flight.so* \
      pyarrow/_flight.*.so pyarrow/_hdfs.*.so pyarrow/_pyarrow_cpp_tests.*.so pyarrow/libarrow_python.so \
      pyarrow/libarrow_python.so.*.*.* numpy/f2py numpy/_core/include && \
    find . -type d -name tests -prune -exec rm -r {} + && \
    find . -name '*.py[ix]' -delete -o -name '*.px[di]' -delete && \
    find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -r {} + && \
    find . -name '*.so*' -exec strip --strip-unneeded {} + && \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/kafka-transaction-exporter/lib

# The root of the exporter's image: these packages of Debian and nothing else, no shell and no package manager. The files in
# status.d name them to scanners of images.
FROM build AS root
RUN packages="base-files ca-certificates libbz2-1.0 libc6 libexpat1 libffi8 libgcc-s1 liblzma5 libpython3.13-minimal \
      libpython3.13-stdlib libssl3t64 libstdc++6 libuuid1 libzstd1 netbase openssl-provider-legacy python3-minimal python3.13 \
      python3.13-minimal tzdata zlib1g" && \
    mkdir -p /image/var/lib/dpkg/status.d /image/tmp && \
    for package in $packages; do \
      dpkg-query --status "$package" > "/image/var/lib/dpkg/status.d/$package" && \
      dpkg-query --listfiles "$package" >> /src/listed || exit 1; \
    done && \
    while read -r path; do if [ -e "$path" ]; then echo "$path"; fi; done < /src/listed > /src/present && \
    sort --unique --output=/src/present /src/present && \
    tar --create --file=/src/root.tar --no-recursion --files-from=/src/present && \
    tar --extract --file=/src/root.tar --directory=/image && \
    cp --archive /etc/ssl /image/etc && \
    cp --archive /usr/lib/ssl /image/usr/lib && \
    ln --symbolic /usr/share/zoneinfo/Etc/UTC /image/etc/localtime && \
    rm -r /image/usr/lib/*/gconv && \
    chmod 1777 /image/tmp && \
    printf '%s\n' root:x:0:0::/:/sbin/nologin exporter:x:65532:65532::/tmp:/sbin/nologin > /image/etc/passwd && \
    printf '%s\n' root:x:0: exporter:x:65532: > /image/etc/group && \
    python3 -m compileall -q --invalidation-mode unchecked-hash -s /image /image/usr/lib/python3.13

# The last one is what is built when no target is named.
FROM scratch AS exporter
LABEL org.opencontainers.image.title="kafka-transaction-exporter" \
      org.opencontainers.image.description="Prometheus exporter of open, late and hanging Kafka transactions" \
      org.opencontainers.image.source="https://github.com/kafka-transaction-exporter/kafka-transaction-exporter" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=root /image /
COPY LICENSE /licenses/LICENSE
COPY --from=exporter-build /opt/kafka-transaction-exporter /opt/kafka-transaction-exporter
# Nothing is written at run time but the state file, where there is a place for it: the root may be read-only.
ENV PATH=/opt/kafka-transaction-exporter/bin:/usr/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Numeric, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 9814
ENTRYPOINT ["kafka-transaction-exporter"]
CMD ["serve"]
