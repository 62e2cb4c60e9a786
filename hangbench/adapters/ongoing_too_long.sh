#!/usr/bin/env bash
# A script in the manner of those that people run by cron: kafka-transactions.sh lists what has been Ongoing for ten seconds
# (KIP-994, Kafka 3.8 or later), and whatever has been so for longer than its own time-out is called hanging.
set -euo pipefail

eval "java=($HANGBENCH_JAVA)"
transactions() {
  "${java[@]}" org.apache.kafka.tools.TransactionsCommand \
    --bootstrap-server "$HANGBENCH_BOOTSTRAP" --command-config "$HANGBENCH_CONFIG" "$@"
}

rows=()
listed=$(transactions list --duration-filter "${HANGBENCH_GRACE_MS:-10000}")
for id in $(awk '$NF == "Ongoing" { print $1 }' <<<"$listed"); do
  described=$(transactions describe --transactional-id "$id")
  # CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState TransactionTimeoutMs
  # CurrentTransactionStartTimeMs TransactionDurationMs TopicPartitions
  while read -r _ _ producer _ _ timeout _ duration partitions; do
    if ((duration > timeout)); then
      for each in ${partitions//,/ }; do
        rows+=("{\"topic\": \"${each%-*}\", \"partition\": ${each##*-}, \"producer_id\": $producer, \"says\": \"hanging\"}")
      done
    fi
  done < <(tail -n +2 <<<"$described")
done
joined=$(IFS=,; echo "${rows[*]:-}")
echo "{\"hangbench\": 1, \"transactions\": [$joined]}"
