#!/bin/sh
# Kafka's command line tools, by the name of the link.
case "$(basename "$0")" in
  kafka-topics.sh) class=org.apache.kafka.tools.TopicCommand ;;
  connect-distributed.sh) class=org.apache.kafka.connect.cli.ConnectDistributed ;;
  *) echo "not a tool of this image: $0" >&2; exit 1 ;;
esac
exec java -Xmx256m -cp '/opt/kafka/libs/*' "$class" "$@"
