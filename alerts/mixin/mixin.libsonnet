// Made from recording.yaml and alerts.yaml by `make generate`: change those.
{
  _config+:: {
    // One page for each alert, of the same name.
    runbookBase: "https://github.com/kafka-transaction-exporter/kafka-transaction-exporter/blob/main/alerts/runbooks",
    // Names of alerts to leave out.
    disabledAlerts: [],
    // Text, as it stands in the expressions.
    thresholds: {
      clock_ahead_seconds: "30",
      cluster_wide_transactions: "10",
      fresh_cycles: "5",
      inconclusive_seconds: "600",
      initializations_per_minute: "6",
      log_lag_records: "10000",
      lost_cycles_ratio: "0.2",
      marker_seconds: "1",
      stuck_critical_seconds: "900",
      timeouts_count: "5",
      timeouts_ratio: "0.05",
    },
  },

  prometheusRules+:: { groups+: [
    {
      "name": "kafka-transaction-signals",
      "interval": "10s",
      "rules": [
        {
          "record": "instance:kafka_transaction_exporter_snapshot_timestamp_seconds:age",
          "expr": |||
            timestamp(kafka_transaction_exporter_snapshot_timestamp_seconds)
            - kafka_transaction_exporter_snapshot_timestamp_seconds
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_cluster_info:fresh",
          "expr": |||
            kafka_transaction_exporter_cluster_info
            and ignoring (cluster_id)
              instance:kafka_transaction_exporter_snapshot_timestamp_seconds:age
              <= kafka_transaction_exporter_cycle_interval_seconds
                 * %(fresh_cycles)s # threshold: fresh_cycles
          ||| % $._config.thresholds,
        },
        {
          "record": "transaction:kafka_suspect_transaction_start_timestamp_seconds:age",
          "expr": |||
            clamp_min(time() - kafka_suspect_transaction_start_timestamp_seconds, 0)
            * ignoring (
                topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict, cluster_id
              ) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "partition:kafka_partition_max_active_transaction_duration_seconds:late",
          "expr": |||
            (kafka_partition_max_active_transaction_duration_seconds and kafka_partition_late_transactions > 0)
            * ignoring (topic, partition, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "partition:kafka_partition_last_stable_offset_lag:suspect",
          "expr": |||
            kafka_partition_last_stable_offset_lag
            * ignoring (topic, partition, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
            and ignoring (producer_id, producer_epoch, start_offset, transactional_id, verdict)
              transaction:kafka_suspect_transaction_start_timestamp_seconds:age
          |||,
        },
        {
          "record": "instance:kafka_open_transactions:fresh",
          "expr": |||
            kafka_open_transactions
            * ignoring (verdict, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_suspect_transactions_hidden:fresh",
          "expr": |||
            kafka_suspect_transactions_hidden
            * ignoring (cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_coverage_complete:fresh",
          "expr": |||
            kafka_transaction_exporter_coverage_complete
            * ignoring (cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "transaction:kafka_suspect_transaction_start_timestamp_seconds:proved",
          "expr": |||
            transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict=~"hanging_.+"}
            or
              last_over_time(transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict=~"hanging_.+"}[5m])
              unless ignoring (
                instance, pod, node, container, endpoint, pod_template_hash,
                topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict
              )
                (instance:kafka_transaction_exporter_coverage_complete:fresh == 1)
            or
              last_over_time(transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict=~"hanging_.+"}[5m])
              and ignoring (instance, pod, node, container, endpoint, pod_template_hash, transactional_id, verdict)
                transaction:kafka_suspect_transaction_start_timestamp_seconds:age
          |||,
        },
        {
          "record": "partition:kafka_partition_max_active_transaction_duration_seconds:lasting",
          "expr": |||
            partition:kafka_partition_max_active_transaction_duration_seconds:late
            or
              last_over_time(partition:kafka_partition_max_active_transaction_duration_seconds:late[5m])
              unless ignoring (instance, pod, node, container, endpoint, pod_template_hash, topic, partition)
                (instance:kafka_transaction_exporter_coverage_complete:fresh == 1)
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_partitions:fresh",
          "expr": |||
            kafka_transaction_exporter_partitions
            * ignoring (answer, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_inconclusive_transactions:fresh",
          "expr": |||
            kafka_transaction_exporter_inconclusive_transactions
            * ignoring (reason, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_cycles:lost_ratio15m",
          "expr": |||
            (
              increase(kafka_transaction_exporter_cycles_failed_total[15m])
              + increase(kafka_transaction_exporter_cycles_missed_total[15m])
            )
            / (
              increase(kafka_transaction_exporter_cycles_total[15m])
              + increase(kafka_transaction_exporter_cycles_missed_total[15m])
            )
          |||,
        },
        {
          "record": "group:kafka_transactions_completed_total:increase15m",
          "expr": |||
            increase(kafka_transactions_completed_total[15m])
            * ignoring (group, outcome, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "group:kafka_transactional_id_initializations_total:rate5m",
          "expr": |||
            rate(kafka_transactional_id_initializations_total[5m])
            * ignoring (group, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "group:kafka_transaction_marker_seconds:p99_5m",
          "expr": |||
            (histogram_quantile(0.99, rate(kafka_transaction_marker_seconds_bucket[5m])) >= 0)
            * ignoring (group, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_transaction_log_reading:fresh",
          "expr": |||
            kafka_transaction_exporter_transaction_log_reading
            * ignoring (cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_transaction_log_partitions:fresh",
          "expr": |||
            kafka_transaction_exporter_transaction_log_partitions
            * ignoring (answer, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_transaction_log_decode_failures_total:increase15m",
          "expr": |||
            increase(kafka_transaction_exporter_transaction_log_decode_failures_total[15m])
            * ignoring (reason, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_transaction_log_lag_records:fresh",
          "expr": |||
            kafka_transaction_exporter_transaction_log_lag_records
            * ignoring (cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
      ],
    },
  ] },

  prometheusAlerts+:: {
    groups+: [
      group { rules: [rule for rule in super.rules if !std.member($._config.disabledAlerts, rule.alert)] }
      for group in [
        {
          "name": "kafka-transactions",
          "interval": "10s",
          "rules": [
            {
              "alert": "KafkaTransactionHanging",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:proved
                  )
                )
              |||,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "A Kafka transaction is proved hanging; no coordinator will write its marker.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a hanging transaction that began {{ humanizeDuration $value }} ago. Verdict: {{ $labels.verdict }}. read_committed consumers see no record from offset {{ $labels.start_offset }} on.\nNext, the evidence and the blocked groups:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}\nThen the plan of an abort, which writes nothing; the runbook has the cases that must not be aborted:\nkafka-transaction-exporter abort --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }} --start-offset {{ $labels.start_offset }} --dry-run",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionHanging.md",
              },
            },
            {
              "alert": "KafkaTransactionHangingClusterWide",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  sum without (verdict) (instance:kafka_open_transactions:fresh{verdict=~"hanging_.+"})
                )
                > %(cluster_wide_transactions)s # threshold: cluster_wide_transactions
              ||| % $._config.thresholds,
              "keep_firing_for": "5m",
              "labels": {
                "severity": "critical",
              },
              "annotations": {
                "summary": "Many transactions of one Kafka cluster are proved hanging.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ $value }} transactions are proved hanging, verdict hanging_*. They probably have one cause, which may still exist.\nNext, list all of them and write a plan file for abort:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --plan-file hanging.json\nThen, when what must not be aborted is deleted from the file, what aborting the rest would do, $COUNT of them; this writes nothing:\nkafka-transaction-exporter abort --bootstrap-server $BOOTSTRAP --plan-file hanging.json --max-aborts $COUNT --dry-run",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionHangingClusterWide.md",
              },
            },
            {
              "alert": "KafkaPartitionsWithLateTransactions",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  partition:kafka_partition_max_active_transaction_duration_seconds:lasting
                )
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                )
                  transaction:kafka_suspect_transaction_start_timestamp_seconds:proved
              |||,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
              },
              "annotations": {
                "summary": "A Kafka transaction is open for longer than transaction.max.timeout.ms allows.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: a transaction has been open for {{ humanizeDuration $value }}, longer than transaction.max.timeout.ms plus padding: it is late, with any verdict.\nNext, its verdict and the evidence:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }} --all",
                "runbook_url": $._config.runbookBase + "/KafkaPartitionsWithLateTransactions.md",
              },
            },
            {
              "alert": "KafkaTransactionReplicaDiverged",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict="replica_diverged"}
                  )
                )
              |||,
              "for": "1m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "critical",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "The replicas of a Kafka partition disagree whether a transaction is open.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a transaction that began {{ humanizeDuration $value }} ago and is open on the leader, while a follower has its marker. Verdict: {{ $labels.verdict }}. Do not abort: that could hide committed records.\nNext, the state of each replica:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionReplicaDiverged.md",
              },
            },
            {
              "alert": "KafkaTransactionStuckCompleting",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict="stuck_completing"}
                  )
                )
              |||,
              "keep_firing_for": "5m",
              "labels": {
                "severity": "warning",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "The marker of a committed or aborted Kafka transaction does not reach a partition.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the transaction of producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} began {{ humanizeDuration $value }} ago; its coordinator has decided the outcome, and the marker is missing. Verdict: {{ $labels.verdict }}.\nNext, the coordinator's decision:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}\nThen what writing that marker would do; this writes nothing:\nkafka-transaction-exporter complete --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }} --start-offset {{ $labels.start_offset }} --dry-run",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionStuckCompleting.md",
              },
            },
            {
              "alert": "KafkaTransactionStuckCompleting",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict="stuck_completing"}
                  )
                )
                > %(stuck_critical_seconds)s # threshold: stuck_critical_seconds
              ||| % $._config.thresholds,
              "keep_firing_for": "5m",
              "labels": {
                "severity": "critical",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "The marker of a committed or aborted Kafka transaction does not reach a partition.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the transaction of producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} began {{ humanizeDuration $value }} ago; its coordinator has decided the outcome, and the marker is missing. Verdict: {{ $labels.verdict }}.\nNext, the coordinator's decision:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}\nThen what writing that marker would do; this writes nothing:\nkafka-transaction-exporter complete --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }} --start-offset {{ $labels.start_offset }} --dry-run",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionStuckCompleting.md",
              },
            },
            {
              "alert": "KafkaTransactionOverdueAtCoordinator",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict="overdue_at_coordinator"}
                  )
                )
              |||,
              "for": "2m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "warning",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "A Kafka transaction is open for longer than its own timeout, and its coordinator does not abort it.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a transaction that began {{ humanizeDuration $value }} ago and is Ongoing for longer than its own timeout. Verdict: {{ $labels.verdict }}.\nNext, its coordinator, its timeout and the blocked groups:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionOverdueAtCoordinator.md",
              },
            },
            {
              "alert": "KafkaTransactionBlocksConsumers",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  partition:kafka_partition_last_stable_offset_lag:suspect
                )
                > min without (instance, pod, node, container, endpoint, pod_template_hash) (
                  min_over_time(partition:kafka_partition_last_stable_offset_lag:suspect[10m])
                )
                and max without (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                ) (transaction:kafka_suspect_transaction_start_timestamp_seconds:age)
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "Records collect behind a Kafka transaction that stays open.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ $value }} records are hidden from read_committed consumers behind a suspect transaction (verdict not yet hanging_*). Their number grows.\nNext, its verdict and the blocked groups:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionBlocksConsumers.md",
              },
            },
            {
              "alert": "KafkaTransactionBlocksConsumers",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  partition:kafka_partition_last_stable_offset_lag:suspect
                )
                > min without (instance, pod, node, container, endpoint, pod_template_hash) (
                  min_over_time(partition:kafka_partition_last_stable_offset_lag:suspect[10m])
                )
                and max without (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                ) (transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict=~"hanging_.+"})
              |||,
              "for": "2m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "critical",
              },
              "annotations": {
                "summary": "Records collect behind a Kafka transaction that stays open.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ $value }} records are hidden from read_committed consumers behind a proved hanging transaction (verdict hanging_*). Their number grows.\nNext, the evidence and the blocked groups:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionBlocksConsumers.md",
              },
            },
            {
              "alert": "KafkaTransactionInconclusive",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict="inconclusive"}
                  )
                )
                > %(inconclusive_seconds)s # threshold: inconclusive_seconds
              ||| % $._config.thresholds,
              "for": "5m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "warning",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "A Kafka transaction has been open for long, and part of the proof for a verdict is missing.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a transaction that began {{ humanizeDuration $value }} ago. Verdict: {{ $labels.verdict }}, so it may be healthy or hanging.\nNext, the missing part of the proof:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --topic {{ $labels.topic }} --partition {{ $labels.partition }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionInconclusive.md",
              },
            },
            {
              "alert": "KafkaTransactionSuspectsHidden",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_suspect_transactions_hidden:fresh
                )
                > 0
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "There are more suspect Kafka transactions than have series.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ $value }} suspects have no series because of publish.suspects_limit: no alert can fire for them. The worst have series.\nNext, list all of them:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionSuspectsHidden.md",
              },
            },
            {
              "alert": "KafkaTransactionSuspectsHidden",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  sum without (verdict) (instance:kafka_open_transactions:fresh{verdict=~"hanging_.+"})
                  - count without (
                      topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict
                    ) (transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict=~"hanging_.+"})
                  or sum without (verdict) (instance:kafka_open_transactions:fresh{verdict=~"hanging_.+"})
                )
                > 0
              |||,
              "for": "1m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "critical",
              },
              "annotations": {
                "summary": "Proved hanging Kafka transactions have no series.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ $value }} proved hanging transactions, verdict hanging_*, have no series because of publish.suspects_limit: KafkaTransactionHanging cannot fire for them.\nNext, list all of them:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionSuspectsHidden.md",
              },
            },
            {
              "alert": "KafkaTransactionTimeouts",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  group:kafka_transactions_completed_total:increase15m{outcome="timeout"}
                  / ignoring (outcome) sum without (outcome) (group:kafka_transactions_completed_total:increase15m)
                  and ignoring (outcome)
                    group:kafka_transactions_completed_total:increase15m{outcome="timeout"}
                    >= %(timeouts_count)s # threshold: timeouts_count
                )
                > %(timeouts_ratio)s # threshold: timeouts_ratio
              ||| % $._config.thresholds,
              "for": "5m",
              "keep_firing_for": "15m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "Many Kafka transactions of one application time out.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ humanizePercentage $value }} of the transactions of group {{ $labels.group }} in the last 15 minutes were aborted by their coordinator, because they were open for longer than their transaction.timeout.ms. read_committed consumers will never see their records, and their producers get an error.\nNext, the open transactions and their durations:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP --all",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionTimeouts.md",
              },
            },
            {
              "alert": "KafkaTransactionFencingStorm",
              "expr": |||
                60 * max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  group:kafka_transactional_id_initializations_total:rate5m
                )
                > %(initializations_per_minute)s # threshold: initializations_per_minute
              ||| % $._config.thresholds,
              "for": "15m",
              "keep_firing_for": "15m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "Producers of one application keep fencing each other, as two with the same transactional id do.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producers of group {{ $labels.group }} initialize transactional ids {{ printf \"%.0f\" $value }} times a minute, for longer than a deployment takes. Each time the previous producer of the id is fenced, and its open transaction is aborted.\nNext, the ids; the runbook shows how to find the one with many initializations:\nkafka-transaction-exporter list --bootstrap-server $BOOTSTRAP",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionFencingStorm.md",
              },
            },
            {
              "alert": "KafkaTransactionMarkersSlow",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  group:kafka_transaction_marker_seconds:p99_5m
                )
                > %(marker_seconds)s # threshold: marker_seconds
              ||| % $._config.thresholds,
              "for": "10m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "Kafka is slow to write the markers of committed or aborted transactions.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: one in a hundred transactions of group {{ $labels.group }} waits {{ humanizeDuration $value }} or longer for its last marker. Until then its producer cannot begin the next transaction, and read_committed consumers wait.\nNext, the transactions that wait for their markers now:\nkafka-transaction-exporter list --bootstrap-server $BOOTSTRAP --states PrepareCommit,PrepareAbort",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionMarkersSlow.md",
              },
            },
          ],
        },
        {
          "name": "kafka-transaction-exporter",
          "interval": "10s",
          "rules": [
            {
              "alert": "KafkaTransactionExporterDown",
              "expr": |||
                (
                  max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    max_over_time(kafka_transaction_exporter_cluster_info[1d])
                  )
                  unless max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    kafka_transaction_exporter_cluster_info
                  )
                  unless ignoring (cluster_id) max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    kafka_transaction_exporter_cycle_interval_seconds
                    unless ignoring (cluster_id) kafka_transaction_exporter_cluster_info
                  )
                )
                or absent_over_time(kafka_transaction_exporter_cycle_interval_seconds[1d])
              |||,
              "for": "3m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "critical",
              },
              "annotations": {
                "summary": "No exporter reads the transactions of a Kafka cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id \"unknown\" }}, job {{ or $labels.job \"unknown\" }}: no instance of kafka-transaction-exporter responds to scrapes. No alert will fire for a hanging transaction.\nNext, the target in Prometheus and the exporter's log. Until it is back, use this command instead:\nkafka-transaction-exporter find-hanging --bootstrap-server $BOOTSTRAP",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterDown.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterSnapshotStale",
              "expr": |||
                count without (instance, pod, node, container, endpoint, pod_template_hash) (
                  max_over_time(kafka_transaction_exporter_cycle_interval_seconds[2m])
                  unless ignoring (cluster_id)
                    max_over_time(instance:kafka_transaction_exporter_cluster_info:fresh[2m])
                )
              |||,
              "for": "2m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "critical",
              },
              "annotations": {
                "summary": "An exporter of Kafka transactions runs without a fresh snapshot of its cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.job }}, job {{ $labels.job }}: {{ $value }} instances of kafka-transaction-exporter have had no fresh snapshot for two minutes. No other alert about the cluster can fire.\nNext, run one cycle by hand to see its error, where the exporter runs and with its login:\nkafka-transaction-exporter once --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterSnapshotStale.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterCyclesFailing",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_cycles:lost_ratio15m
                )
                > %(lost_cycles_ratio)s # threshold: lost_cycles_ratio
              ||| % $._config.thresholds,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "Many cycles of an exporter of Kafka transactions fail.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.job }}, job {{ $labels.job }}: {{ humanizePercentage $value }} of the cycles of the last 15 minutes failed or could not start. Hangs are found later than promised.\nNext, the duration of a cycle, or its error, where the exporter runs and with its login:\nkafka-transaction-exporter once --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterCyclesFailing.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterCoverageIncomplete",
              "expr": |||
                min without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_coverage_complete:fresh
                )
                == 0
              |||,
              "for": "10m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "The transaction exporter cannot read a part of its Kafka cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: for ten minutes, a part could not be read. No alert can fire for the unread part.\nNext, the gaps, on standard error, where the exporter runs and with its login:\nkafka-transaction-exporter once --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterCoverageIncomplete.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterPartitionsUnauthorized",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_partitions:fresh{answer="unauthorized"}
                )
                > 0
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "The transaction exporter is not authorized to read some Kafka partitions.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ $value }} partitions are not authorized for DescribeProducers: the exporter's principal lacks READ on their topics. Hangs there are not seen.\nNext, the topics, on standard error, where the exporter runs and with its login:\nkafka-transaction-exporter once --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterPartitionsUnauthorized.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterTransactionalIdsHidden",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_inconclusive_transactions:fresh{
                    reason=~"transactional_ids_hidden|ids_may_be_denied|topics_hidden|transaction_state_hidden"
                  }
                )
                > 0
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "The transaction exporter lacks a grant to prove hangs.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ $value }} open transactions stay without a verdict because of {{ $labels.reason }}: the exporter's principal lacks a grant, or has a DENY. No hang can be proved there; only KafkaPartitionsWithLateTransactions fires, twenty minutes later.\nNext, the missing grant, where the exporter runs and with its login:\nkafka-transaction-exporter find-hanging --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterTransactionalIdsHidden.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterConfigReloadFailed",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  time() - kafka_transaction_exporter_config_last_reload_success_timestamp_seconds
                  and kafka_transaction_exporter_config_last_reload_successful == 0
                )
              |||,
              "for": "5m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "A transaction exporter refused its changed configuration and runs with the old one.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.job }}, job {{ $labels.job }}: the configuration in use was read {{ humanizeDuration $value }} ago, and the present one has an error. The exporter cannot start with it.\nNext, every error with its place, where the exporter runs; its log has them too:\nkafka-transaction-exporter config check --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterConfigReloadFailed.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterClockSkew",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  -instance:kafka_transaction_exporter_snapshot_timestamp_seconds:age
                )
                > %(clock_ahead_seconds)s # threshold: clock_ahead_seconds
              ||| % $._config.thresholds,
              "for": "10m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "The clock of a transaction exporter is ahead of Prometheus.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.job }}, job {{ $labels.job }}: the exporter's clock is {{ humanizeDuration $value }} ahead of Prometheus'. Ages are wrong by this difference, and a stopped exporter is noticed later by the same difference.\nNext, on both machines:\nchronyc tracking",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterClockSkew.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterLogIncomplete",
              "expr": |||
                min without (instance, pod, node, container, endpoint, pod_template_hash) (
                  min_over_time(instance:kafka_transaction_exporter_transaction_log_reading:fresh[2m])
                )
                == 0
                or max without (instance, pod, node, container, endpoint, pod_template_hash, answer) (
                  instance:kafka_transaction_exporter_transaction_log_partitions:fresh{answer="unread"}
                )
                > 0
                or max without (instance, pod, node, container, endpoint, pod_template_hash, reason) (
                  instance:kafka_transaction_exporter_transaction_log_decode_failures_total:increase15m
                )
                > 0
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "The transaction exporter cannot read or decode a part of Kafka's transaction log.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the exporter does not read all of the transaction log, __transaction_state, or cannot decode some of its records. Transactions by outcome and their durations are wrong; verdicts do not need the transaction log. The exporter's log lines have the reason.\nNext, the missing authorization, on standard error, where the exporter runs and with its login:\nkafka-transaction-exporter once --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterLogIncomplete.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterLogBehind",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_transaction_log_lag_records:fresh
                )
                > %(log_lag_records)s # threshold: log_lag_records
                and max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_transaction_log_lag_records:fresh
                )
                >= max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_transaction_log_lag_records:fresh offset 10m
                )
              ||| % $._config.thresholds,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "An exporter reads Kafka's transaction log more slowly than it is written.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ printf \"%.0f\" $value }} records of the transaction log, __transaction_state, are unread, and not fewer than ten minutes ago. Transactions by outcome are counted late.\nNext, the duration of a cycle, where the exporter runs and with its login:\nkafka-transaction-exporter once --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterLogBehind.md",
              },
            },
            {
              "alert": "KafkaTransactionExporterHistoryNotWritten",
              "expr": |||
                min without (instance, pod, node, container, endpoint, pod_template_hash) (kafka_transaction_exporter_history_writing)
                == 0
                or max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  increase(kafka_transaction_exporter_history_rows_lost_total[15m])
                )
                > 0
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
              },
              "annotations": {
                "summary": "A transaction exporter cannot write its history.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.job }}, job {{ $labels.job }}: the history is not written, or observations were dropped because too many waited. Waiting observations are in memory, and lost when the exporter is killed. The exporter's log lines have the reason.\nNext, the directory and its limits, where the exporter runs:\nkafka-transaction-exporter config dump --config.file $CONFIG_FILE",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterHistoryNotWritten.md",
              },
            },
            {
              "alert": "KafkaTransactionWatchdog",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_cluster_info:fresh
                )
              |||,
              "keep_firing_for": "5m",
              "labels": {
                "severity": "none",
              },
              "annotations": {
                "summary": "Always fires while an exporter reads the transactions of a Kafka cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }} is read, and alerts about it reach Alertmanager. Route this alert to a dead man's switch, which pages when it stops.",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionWatchdog.md",
              },
            },
          ],
        },
      ]
    ],
  },

  grafanaDashboards+:: {
    'kafka-transactions-overview.json': import '../../grafana/overview.json',
    'kafka-transactions-partition.json': import '../../grafana/partition.json',
    'kafka-transactions-fleet.json': import '../../grafana/fleet.json',
  },
}
