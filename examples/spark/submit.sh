#!/usr/bin/env bash
# Sends `serve --engine=spark` with the program itself to a Spark cluster; workers need Python of the same version and Java.
#
#   SPARK_MASTER=spark://master:7077 SPARK_SECRET_FILE=/etc/spark/secret examples/spark/submit.sh --clusters=clusters.yaml
#
# PYTHON            the Python of the driver, in which kafka-transaction-exporter[spark] is installed; default: python3
# PYSPARK_PYTHON    the Python of the workers; default: python3
# --memory SIZE     the memory of the driver and of each executor; default: 1g
# SPARK_SECRET_FILE holds spark.authenticate.secret, the same as of master and workers
# SPARK_PROPERTIES  a file with more settings of Spark, as in spark-defaults.conf
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${SPARK_MASTER:?is missing: the address of the master, such as spark://master:7077}"
: "${SPARK_SECRET_FILE:?is missing: a file with the secret of the Spark cluster (spark.authenticate.secret)}"
# Read here, where a file that cannot be read ends the script; within the text below it would not.
secret=$(cat "$SPARK_SECRET_FILE")
: "${secret:?is empty: $SPARK_SECRET_FILE has no secret}"
properties=$([ -z "${SPARK_PROPERTIES:-}" ] || cat "$SPARK_PROPERTIES")
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$here/pack.py" "$folder/packages.tar.gz"

# In a file, not on the command line, which every user of the machine can read.
umask 077
cat > "$folder/spark-defaults.conf" <<CONF
spark.archives                      $folder/packages.tar.gz#packages
spark.executorEnv.PYTHONPATH        ./packages
spark.authenticate                  true
spark.authenticate.secret           $secret
spark.network.crypto.enabled        true
spark.io.encryption.enabled         true
spark.executor.cores                ${SPARK_EXECUTOR_CORES:-1}
$properties
CONF
export SPARK_CONF_DIR=$folder PYSPARK_PYTHON=${PYSPARK_PYTHON:-python3}
"$python" -m exporter serve --engine=spark --master="$SPARK_MASTER" "$@" &
driver=$!
for name in TERM INT HUP; do trap "kill -$name $driver" "$name"; done
status=0
wait "$driver" || status=$?
while kill -0 "$driver" 2>/dev/null; do  # a signal ends the waiting, not the exporter
  status=0
  wait "$driver" || status=$?
done
exit "$status"
