#!/usr/bin/env bash
# What the pipeline's image starts: the program, or in pods of Spark on Kubernetes its driver or an executor.
#
# Spark gives these two words, and what is in the environment, to the image that it is told to use: its own image has a
# script for them, which PySpark does not carry. Names of variables are those of Spark 4 (org.apache.spark.deploy.k8s).
set -euo pipefail
case "${1:-}" in
  driver)
    exec spark-submit --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "${@:2}"
    ;;
  executor)
    options=()
    for ((number = 0; ; number++)); do
      option=SPARK_JAVA_OPT_$number
      [ -n "${!option+set}" ] || break
      options+=("${!option}")
    done
    exec java ${options[@]+"${options[@]}"} "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec kafka-transaction-exporter "$@"
    ;;
esac
