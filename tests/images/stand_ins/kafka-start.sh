#!/bin/sh
# Starts a broker as the published image does: every variable KAFKA_A_B is the property a.b.
set -eu
properties=/opt/kafka/config/server.properties
env | sed -n 's/^KAFKA_\([A-Z0-9_]*\)=\(.*\)$/\1 \2/p' | while read -r name value; do
  echo "$(echo "$name" | tr 'A-Z_' 'a-z.')=$value"
done > "$properties"
echo "log.dirs=/tmp/kraft/logs" >> "$properties"
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t "${CLUSTER_ID:-3Gn3Yq0HSnGzWkJ4pQv2aA}" -c "$properties" --ignore-formatted
exec java -Xmx512m -cp '/opt/kafka/libs/*' kafka.Kafka "$properties"
