// Made from recording.yaml and alerts.yaml by `make generate`: change those.
{
  _config+:: {
    // A page for each reason.
    runbookBase: "https://github.com/kafka-transaction-exporter/kafka-transaction-exporter/blob/main/alerts/runbooks",
    // Where Grafana has the dashboards, for links in alerts; empty: no links.
    grafanaUrl: '',
    // Names of alerts, or of runbooks for one reason only, to leave out.
    disabledAlerts: [],
    // Text, as it stands in the expressions.
    thresholds: {
      clock_ahead_seconds: "30",
      cluster_wide_transactions: "10",
      disk_full_seconds: "21600",
      fresh_cycles: "5",
      inconclusive_seconds: "600",
      initializations_per_minute: "6",
      log_lag_records: "10000",
      lost_cycles_ratio: "0.2",
      marker_seconds: "1",
      owner_silent_critical_seconds: "600",
      owner_silent_remaining_seconds: "120",
      read_ratio: "0.8",
      stuck_after_seconds: "60",
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
          "record": "cluster:kafka_transaction_exporter_cluster_info:timestamp",
          "expr": |||
            max without (instance, pod, node, container, endpoint, pod_template_hash) (
              timestamp(kafka_transaction_exporter_cluster_info)
            )
          |||,
        },
        {
          "record": "cluster:kafka_transaction_exporter_cluster_info:renamed",
          "expr": |||
            time() + 0 * (
              max without (instance, pod, node, container, endpoint, pod_template_hash) (
                kafka_transaction_exporter_cluster_info offset 15m
              )
              and on (cluster_id)
                (
                  max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    kafka_transaction_exporter_cluster_info
                  )
                  unless max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    kafka_transaction_exporter_cluster_info offset 15m
                  )
                )
            )
          |||,
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
            (
              kafka_partition_max_active_transaction_duration_seconds
              and kafka_partition_late_transactions > 0
              unless kafka_partition_late_transactions == kafka_partition_late_prepared_transactions
            )
            * ignoring (topic, partition, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "partition:kafka_partition_max_active_transaction_duration_seconds:late_prepared",
          "expr": |||
            (
              kafka_partition_max_active_transaction_duration_seconds
              and kafka_partition_late_prepared_transactions > 0
              and kafka_partition_late_transactions == kafka_partition_late_prepared_transactions
            )
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
          "record": "instance:kafka_transaction_exporter_coverage_complete:settled",
          "expr": |||
            instance:kafka_transaction_exporter_coverage_complete:fresh == 1
            and ignoring (cluster_id)
              (kafka_transaction_exporter_cycles_total - kafka_transaction_exporter_cycles_failed_total - 3)
              * kafka_transaction_exporter_cycle_interval_seconds
              > %(stuck_after_seconds)s # threshold: stuck_after_seconds
          ||| % $._config.thresholds,
        },
        {
          "record": "transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting",
          "expr": |||
            transaction:kafka_suspect_transaction_start_timestamp_seconds:age
            or
              last_over_time(transaction:kafka_suspect_transaction_start_timestamp_seconds:age[5m])
              and last_over_time(transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting[30s])
              unless ignoring (
                instance, pod, node, container, endpoint, pod_template_hash,
                topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict
              )
                instance:kafka_transaction_exporter_coverage_complete:settled
          |||,
        },
        {
          "record": "transaction:kafka_suspect_transaction_start_timestamp_seconds:proved",
          "expr": |||
            transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict=~"hanging_.+"}
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
              and last_over_time(partition:kafka_partition_max_active_transaction_duration_seconds:lasting[30s])
              unless ignoring (instance, pod, node, container, endpoint, pod_template_hash, topic, partition)
                instance:kafka_transaction_exporter_coverage_complete:settled
          |||,
        },
        {
          "record": "group:kafka_consumer_group_blocked_records:fresh",
          "expr": |||
            kafka_consumer_group_blocked_records
            * ignoring (group, topic, partition, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "group:kafka_consumer_group_blocked_records:lasting",
          "expr": |||
            group:kafka_consumer_group_blocked_records:fresh
            or
              last_over_time(group:kafka_consumer_group_blocked_records:fresh[5m])
              and last_over_time(group:kafka_consumer_group_blocked_records:lasting[30s])
              unless ignoring (instance, pod, node, container, endpoint, pod_template_hash, group, topic, partition)
                instance:kafka_transaction_exporter_coverage_complete:settled
          |||,
        },
        {
          "record": "log_dir:kafka_log_dir_full_seconds:fresh",
          "expr": |||
            kafka_log_dir_full_seconds
            * ignoring (broker, log_dir, cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "transaction:kafka_stuck_transaction_start_timestamp_seconds:age",
          "expr": |||
            clamp_min(time() - kafka_stuck_transaction_start_timestamp_seconds, 0)
            * ignoring (
                transactional_id, producer_id, producer_epoch, coordinator, state, markers, cluster_id
              ) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "transaction:kafka_stuck_transaction_start_timestamp_seconds:lasting",
          "expr": |||
            transaction:kafka_stuck_transaction_start_timestamp_seconds:age
            or
              last_over_time(transaction:kafka_stuck_transaction_start_timestamp_seconds:age[5m])
              and last_over_time(transaction:kafka_stuck_transaction_start_timestamp_seconds:lasting[30s])
              unless ignoring (
                instance, pod, node, container, endpoint, pod_template_hash,
                transactional_id, producer_id, producer_epoch, coordinator, state, markers
              )
                instance:kafka_transaction_exporter_coverage_complete:settled
          |||,
        },
        {
          "record": "transaction:kafka_blocking_transaction_owner_silent_seconds:fresh",
          "expr": |||
            kafka_blocking_transaction_owner_silent_seconds
            * ignoring (
                topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict, cluster_id
              ) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "transaction:kafka_blocking_transaction_ends_timestamp_seconds:fresh",
          "expr": |||
            kafka_blocking_transaction_ends_timestamp_seconds
            * ignoring (
                topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict, cluster_id
              ) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "transaction:kafka_blocking_transaction_ends_timestamp_seconds:lasting",
          "expr": |||
            (
              transaction:kafka_blocking_transaction_ends_timestamp_seconds:fresh
              and ignoring (instance, pod, node, container, endpoint, pod_template_hash, transactional_id, verdict)
                (
                  transaction:kafka_blocking_transaction_owner_silent_seconds:fresh > 0
                  or last_over_time(transaction:kafka_blocking_transaction_ends_timestamp_seconds:lasting[30s])
                )
              or
                last_over_time(transaction:kafka_blocking_transaction_ends_timestamp_seconds:fresh[5m])
                and last_over_time(transaction:kafka_blocking_transaction_ends_timestamp_seconds:lasting[30s])
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict
                )
                  instance:kafka_transaction_exporter_coverage_complete:settled
            )
            unless ignoring (instance, pod, node, container, endpoint, pod_template_hash, transactional_id, verdict)
              (transaction:kafka_blocking_transaction_owner_silent_seconds:fresh == 0)
          |||,
        },
        {
          "record": "transaction:kafka_blocking_transaction_ends_timestamp_seconds:wait",
          "expr": |||
            transaction:kafka_blocking_transaction_ends_timestamp_seconds:fresh
            - ignoring (producer_id, producer_epoch, start_offset, transactional_id, verdict, cluster_id) group_left ()
              min without (group) (kafka_consumer_group_blocked_since_timestamp_seconds)
          |||,
        },
        {
          "record": "instance:kafka_hanging_transactions:fresh",
          "expr": |||
            sum without (verdict) (instance:kafka_open_transactions:fresh{verdict=~"hanging_.+"})
          |||,
        },
        {
          "record": "instance:kafka_hanging_transactions:lasting",
          "expr": |||
            instance:kafka_hanging_transactions:fresh
            and (instance:kafka_transaction_exporter_coverage_complete:fresh == 1)
            or
              max_over_time(instance:kafka_hanging_transactions:fresh[5m])
              and last_over_time(instance:kafka_hanging_transactions:lasting[30s])
              unless ignoring (instance, pod, node, container, endpoint, pod_template_hash)
                instance:kafka_transaction_exporter_coverage_complete:settled
            or instance:kafka_hanging_transactions:fresh
          |||,
        },
        {
          "record": "instance:kafka_hanging_transactions:cluster_wide",
          "expr": |||
            instance:kafka_hanging_transactions:lasting > 0
            and ignoring (instance, pod, node, container, endpoint, pod_template_hash)
              max_over_time(instance:kafka_hanging_transactions:lasting[1h])
              > %(cluster_wide_transactions)s # threshold: cluster_wide_transactions
          ||| % $._config.thresholds,
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
          "record": "instance:kafka_transaction_exporter_partitions:responding",
          "expr": |||
            sum without (answer) (instance:kafka_transaction_exporter_partitions:fresh{answer=~"read|by_offsets"})
          |||,
        },
        {
          "record": "instance:kafka_transaction_exporter_visible_topics:fresh",
          "expr": |||
            kafka_transaction_exporter_visible_topics
            * ignoring (cluster_id) group_left (cluster_id)
              instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "instance:kafka_transaction_protection:fresh",
          "expr": |||
            kafka_transaction_protection
            * ignoring (check, cluster_id) group_left (cluster_id)
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
          "record": "instance:kafka_transaction_audit_findings:fresh",
          "expr": |||
            kafka_transaction_audit_findings
            * ignoring (verdict, cluster_id) group_left (cluster_id)
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
    {
      "name": "kafka-transaction-objectives",
      "interval": "30s",
      "rules": [
        {
          "record": "instance:kafka_consumer_group_blocked_records:any",
          "expr": |||
            group without (group, topic, partition) (group:kafka_consumer_group_blocked_records:fresh > 0)
            or 0 * instance:kafka_transaction_exporter_cluster_info:fresh
          |||,
        },
        {
          "record": "partition:kafka_consumer_group_blocked_since_timestamp_seconds:unalerted",
          "expr": |||
            clamp_min(
              time() - min without (group) (
                kafka_consumer_group_blocked_since_timestamp_seconds
                * ignoring (group, topic, partition, cluster_id) group_left (cluster_id)
                  instance:kafka_transaction_exporter_cluster_info:fresh
              ),
              0
            )
            unless on (cluster_id, topic, partition)
              ALERTS{alertstate="firing", component="kafka-transactions", severity!="info"}
            unless on (cluster_id)
              ALERTS{alertstate="firing", reason="HangingClusterWide"}
          |||,
        },
      ],
    },
  ] },

  prometheusAlerts+:: {
    groups+: [
      group { rules: [
        rule
        for rule in super.rules
        if !std.member($._config.disabledAlerts, rule.alert)
           && !std.member($._config.disabledAlerts, 'KafkaTransaction' + rule.labels.reason)
      ] }
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
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict
                )
                  instance:kafka_hanging_transactions:cluster_wide
              |||,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "Hanging",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "A Kafka transaction is proved hanging; no coordinator will write its marker.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a hanging transaction that began {{ humanizeDuration $value }} ago{{ with query (printf \"kafka_suspect_transaction_start_by_client_clock{topic=%q, partition=%q, producer_id=%q, start_offset=%q} and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.topic $labels.partition $labels.producer_id $labels.start_offset $labels.cluster $labels.cluster_id) }} by its client's clock{{ end }}, verdict {{ $labels.verdict }}. read_committed consumers see no record from offset {{ $labels.start_offset }} on, and waiting does not help.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionHanging.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionHanging",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_hanging_transactions:cluster_wide
                )
              |||,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "HangingClusterWide",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "Many transactions of one Kafka cluster are proved hanging.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ printf \"%.0f\" $value }} transactions are proved hanging, verdict hanging_*. They probably have one cause, which may still exist.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionHangingClusterWide.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksConsumersLong",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  partition:kafka_partition_max_active_transaction_duration_seconds:lasting
                )
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                )
                  transaction:kafka_suspect_transaction_start_timestamp_seconds:proved
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                )
                  (
                    transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="replica_diverged"}
                    or
                      transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="stuck_completing"}
                      > %(stuck_critical_seconds)s # threshold: stuck_critical_seconds
                  )
                unless ignoring (instance, pod, node, container, endpoint, pod_template_hash, topic, partition)
                  instance:kafka_hanging_transactions:cluster_wide
              ||| % $._config.thresholds,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "Late",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "A Kafka transaction is open for longer than transaction.max.timeout.ms allows.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: a transaction has been open for {{ humanizeDuration $value }}, longer than transaction.max.timeout.ms plus padding. It is late with any verdict: whether it hangs is not proved.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionLate.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksConsumers",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  partition:kafka_partition_max_active_transaction_duration_seconds:late_prepared
                )
              |||,
              "keep_firing_for": "5m",
              "labels": {
                "severity": "warning",
                "reason": "Late",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "A Kafka transaction that is prepared for two-phase commit is open for long.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: a transaction that is prepared for two-phase commit has been open for {{ humanizeDuration $value }}. No time-out ends it: its owner must commit or abort it.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionLate.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionOutcomeContradicted",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="replica_diverged"}
                  )
                )
              |||,
              "for": "1m",
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "ReplicaDiverged",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "The replicas of a Kafka partition disagree whether a transaction is open.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a transaction that began {{ humanizeDuration $value }} ago and is open on the leader, while a follower has its marker; verdict {{ $labels.verdict }}. Do not abort: that could hide committed records.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionReplicaDiverged.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksConsumers",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="stuck_completing"}
                  )
                )
                <= %(stuck_critical_seconds)s # threshold: stuck_critical_seconds
              ||| % $._config.thresholds,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "warning",
                "reason": "StuckCompleting",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "The marker of a committed or aborted Kafka transaction does not reach a partition.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the transaction of producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} began {{ humanizeDuration $value }} ago; its coordinator has decided the outcome, and the marker is missing, verdict {{ $labels.verdict }}. read_committed consumers see no record from offset {{ $labels.start_offset }} on until it is written.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionStuckCompleting.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionProducerCannotStart",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="stuck_completing"}
                  )
                )
                > %(stuck_critical_seconds)s # threshold: stuck_critical_seconds
              ||| % $._config.thresholds,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "StuckCompleting",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "The marker of a committed or aborted Kafka transaction does not reach a partition.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the transaction of producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} began {{ humanizeDuration $value }} ago; its coordinator has decided the outcome, and the marker is missing, verdict {{ $labels.verdict }}. read_committed consumers see no record from offset {{ $labels.start_offset }} on until it is written.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionStuckCompleting.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionOutcomeContradicted",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (
                    instance, pod, node, container, endpoint, pod_template_hash,
                    transactional_id, coordinator, state, markers
                  ) (1, transaction:kafka_stuck_transaction_start_timestamp_seconds:lasting{markers="contradicted"})
                )
              |||,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "OutcomeContradicted",
                "component": "kafka-transactions",
                "transactional_id": "",
                "coordinator": "",
                "state": "",
                "markers": "",
              },
              "annotations": {
                "summary": "A Kafka partition has the opposite marker of what the transaction's coordinator has decided.",
                "description": "Producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} in cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: its transaction that began {{ humanizeDuration $value }} ago is in state {{ $labels.state }} at coordinator {{ $labels.coordinator }}, and a partition's log has the opposite marker. Records of a commit are hidden, or records of an abort visible; its producer cannot start.",
                "variables": "export PRODUCER_ID={{ $labels.producer_id | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionOutcomeContradicted.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionOutcomeContradicted",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  sum without (verdict) (
                    instance:kafka_transaction_audit_findings:fresh{
                      verdict=~"torn|contradicted|closed_by_another|marker_missing"
                    }
                  )
                ) > 0
              |||,
              "keep_firing_for": "10m",
              "labels": {
                "severity": "critical",
                "reason": "AuditFinding",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "An audit has found Kafka transactions whose logs contradict what their coordinator has decided.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: partitions that by the audits of the last day lack the marker of a transaction, or have the opposite one, or that of another transaction: {{ printf \"%.0f\" $value }}. Committed records are hidden, or records are visible that nobody committed: their owners are in the table audit_transactions and must be informed.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionAuditFinding.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionFillsDisk",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  log_dir:kafka_log_dir_full_seconds:fresh
                )
                < %(disk_full_seconds)s # threshold: disk_full_seconds
              ||| % $._config.thresholds,
              "for": "10m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "critical",
                "reason": "FillsDisk",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "A broker's disk fills, because an open Kafka transaction keeps a log from being compacted or tiered.",
                "description": "Broker {{ $labels.broker }}, log directory {{ $labels.log_dir | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: it is full in {{ humanizeDuration $value }} at the growth of what open transactions hold back there. A broker without space stops.",
                "variables": "export BROKER={{ $labels.broker | reReplaceAll \"[^0-9]\" \"?\" }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionFillsDisk.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionProducerCannotStart",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (
                    instance, pod, node, container, endpoint, pod_template_hash,
                    transactional_id, coordinator, state, markers
                  ) (1, transaction:kafka_stuck_transaction_start_timestamp_seconds:lasting{markers!="contradicted"})
                )
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  topic, partition, producer_epoch, start_offset, transactional_id, verdict, coordinator, state, markers
                )
                  transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="stuck_completing"}
              |||,
              "for": "5m",
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "ProducerCannotStart",
                "component": "kafka-transactions",
                "transactional_id": "",
                "coordinator": "",
                "state": "",
                "markers": "",
              },
              "annotations": {
                "summary": "A producer cannot start, because the coordinator cannot complete its last Kafka transaction.",
                "description": "Producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} in cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: coordinator {{ $labels.coordinator }} has its transaction in state {{ $labels.state }}, which began {{ humanizeDuration $value }} ago; its markers are {{ $labels.markers | reReplaceAll \"_\" \" \" }}. The application gets CONCURRENT_TRANSACTIONS until it is completed: the runbook's first command says what that takes.",
                "variables": "export PRODUCER_ID={{ $labels.producer_id | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionProducerCannotStart.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksConsumers",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_blocking_transaction_ends_timestamp_seconds:lasting
                  )
                )
                - time()
                > %(owner_silent_remaining_seconds)s # threshold: owner_silent_remaining_seconds
                unless ignoring (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id)
                  (
                    max_over_time(transaction:kafka_blocking_transaction_ends_timestamp_seconds:wait[30m])
                    > %(owner_silent_critical_seconds)s # threshold: owner_silent_critical_seconds
                  )
              ||| % $._config.thresholds,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "warning",
                "reason": "OwnerSilent",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "Consumer groups wait for a producer that writes no more in the middle of a Kafka transaction.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} writes no more and has not ended its transaction from offset {{ $labels.start_offset }} on. It ends by itself within {{ humanizeDuration $value }}, when its coordinator aborts it.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionOwnerSilent.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksConsumersLong",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_blocking_transaction_ends_timestamp_seconds:lasting
                  )
                )
                - time()
                > %(owner_silent_remaining_seconds)s # threshold: owner_silent_remaining_seconds
                and ignoring (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id)
                  (
                    max_over_time(transaction:kafka_blocking_transaction_ends_timestamp_seconds:wait[30m])
                    > %(owner_silent_critical_seconds)s # threshold: owner_silent_critical_seconds
                  )
              ||| % $._config.thresholds,
              "keep_firing_for": "30s",
              "labels": {
                "severity": "critical",
                "reason": "OwnerSilent",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "Consumer groups wait for a producer that writes no more in the middle of a Kafka transaction.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} writes no more and has not ended its transaction from offset {{ $labels.start_offset }} on. It ends by itself within {{ humanizeDuration $value }}, when its coordinator aborts it.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionOwnerSilent.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksConsumers",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="overdue_at_coordinator"}
                  )
                )
              |||,
              "for": "2m",
              "keep_firing_for": "30s",
              "labels": {
                "severity": "warning",
                "reason": "OverdueAtCoordinator",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "A Kafka transaction is open for longer than its own timeout, and its coordinator does not abort it.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a transaction that began {{ humanizeDuration $value }} ago and is Ongoing for longer than its own timeout, verdict {{ $labels.verdict }}. read_committed consumers see no record from offset {{ $labels.start_offset }} on until its coordinator aborts it.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionOverdueAtCoordinator.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksConsumers",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  last_over_time(partition:kafka_partition_last_stable_offset_lag:suspect[5m])
                )
                > min without (instance, pod, node, container, endpoint, pod_template_hash) (
                  min_over_time(partition:kafka_partition_last_stable_offset_lag:suspect[10m])
                )
                and max without (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                ) (transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting)
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                )
                  transaction:kafka_suspect_transaction_start_timestamp_seconds:proved
                unless ignoring (instance, pod, node, container, endpoint, pod_template_hash, topic, partition)
                  instance:kafka_hanging_transactions:cluster_wide
              |||,
              "for": "5m",
              "keep_firing_for": "30s",
              "labels": {
                "severity": "warning",
                "reason": "BlocksConsumers",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "Records collect behind a Kafka transaction that stays open.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: offsets hidden from read_committed consumers behind a suspect transaction, verdict not yet hanging_*: {{ printf \"%.0f\" $value }}. Their number grows.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionBlocksConsumers.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionBlocksGroup",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  group:kafka_consumer_group_blocked_records:lasting
                )
                > 0
              |||,
              "for": "1m",
              "keep_firing_for": "30s",
              "labels": {
                "severity": "info",
                "reason": "BlocksGroup",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "A consumer group cannot read on, because a Kafka transaction stays open.",
                "description": "Group {{ $labels.group | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }}, topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the group's lag in offsets behind an open transaction: {{ printf \"%.0f\" $value }}. The operators of Kafka have an alert of their own, at once if it hangs, otherwise if its owner does not end it soon.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} GROUP={{ $labels.group | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionBlocksGroup.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, verdict, transactional_id) (
                    1, transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting{verdict="inconclusive"}
                  )
                )
                > %(inconclusive_seconds)s # threshold: inconclusive_seconds
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  producer_id, producer_epoch, start_offset, transactional_id, verdict
                )
                  transaction:kafka_suspect_transaction_start_timestamp_seconds:proved
                unless ignoring (
                  instance, pod, node, container, endpoint, pod_template_hash,
                  topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict, reason
                )
                  (
                    instance:kafka_transaction_exporter_inconclusive_transactions:fresh{
                      reason=~"transactional_ids_hidden|ids_visible_by_name_only|ids_may_be_denied|topics_hidden|transaction_state_hidden"
                    }
                    > 0
                  )
              ||| % $._config.thresholds,
              "for": "5m",
              "keep_firing_for": "30s",
              "labels": {
                "severity": "warning",
                "reason": "Inconclusive",
                "component": "kafka-transactions",
                "verdict": "",
                "transactional_id": "",
              },
              "annotations": {
                "summary": "A Kafka transaction has been open for long, and part of the proof for a verdict is missing.",
                "description": "Topic {{ $labels.topic }}, partition {{ $labels.partition }}, cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producer {{ $labels.producer_id }}{{ with $labels.transactional_id }}, transactional id {{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }},{{ end }} has a transaction that began {{ humanizeDuration $value }} ago{{ with query (printf \"kafka_suspect_transaction_start_by_client_clock{topic=%q, partition=%q, producer_id=%q, start_offset=%q} and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.topic $labels.partition $labels.producer_id $labels.start_offset $labels.cluster $labels.cluster_id) }} by its client's clock{{ end }}, verdict {{ $labels.verdict }}. It may be healthy or hanging: part of the proof is missing.",
                "blocked_groups": "Blocked consumer groups: {{ with query (printf \"sort_desc(topk(5, max by (group) (group:kafka_consumer_group_blocked_records:fresh{cluster=%q, cluster_id=%q, topic=%q, partition=%q})))\" $labels.cluster $labels.cluster_id $labels.topic $labels.partition) }}{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ $it | label \"group\" | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} (lag {{ $it | value | printf \"%.0f\" }} offsets){{ end }}{{ else }}none seen so far{{ with query (printf \"instance:kafka_transaction_exporter_coverage_complete:fresh{cluster=%q, cluster_id=%q} == 1\" $labels.cluster $labels.cluster_id) }}{{ else }}, and not everything is read{{ end }}{{ end }}.",
                "variables": "export TOPIC={{ $labels.topic | reReplaceAll \"[^-_.a-zA-Z0-9]\" \"?\" }} PARTITION={{ $labels.partition | reReplaceAll \"[^0-9]\" \"?\" }} START_OFFSET={{ $labels.start_offset | reReplaceAll \"[^0-9]\" \"?\" }}{{ with $labels.transactional_id }} TRANSACTIONAL_ID={{ . | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" }}{{ end }} KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionInconclusive.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-partition?var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}&{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_suspect_transactions_hidden:fresh
                )
                > 0
                unless ignoring (instance, pod, node, container, endpoint, pod_template_hash)
                  instance:kafka_hanging_transactions:cluster_wide
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
                "reason": "SuspectsHidden",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "There are more suspect Kafka transactions than have series.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: suspects without a series because of publish.suspects_limit: {{ printf \"%.0f\" $value }}. No alert can fire for them; the worst have series.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionSuspectsHidden.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionHanging",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_hanging_transactions:fresh
                  - count without (
                      topic, partition, producer_id, producer_epoch, start_offset, transactional_id, verdict
                    ) (transaction:kafka_suspect_transaction_start_timestamp_seconds:age{verdict=~"hanging_.+"})
                  or instance:kafka_hanging_transactions:fresh
                )
                > 0
                unless ignoring (instance, pod, node, container, endpoint, pod_template_hash)
                  instance:kafka_hanging_transactions:cluster_wide
              |||,
              "for": "1m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "critical",
                "reason": "SuspectsHidden",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "Proved hanging Kafka transactions have no series.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ printf \"%.0f\" $value }} proved hanging transactions, verdict hanging_*, have no series because of publish.suspects_limit. KafkaTransactionHanging cannot fire for them.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/incidents{{ with $labels.topic }}?topic={{ . | urlquery }}&partition={{ $labels.partition | urlquery }}{{ with $labels.start_offset }}&start_offset={{ . | urlquery }}{{ end }}{{ end }}{{ with $labels.group }}#search={{ . | urlquery | reReplaceAll \"[+]\" \"%20\" }}{{ end }}{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionSuspectsHidden.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionGroupFails",
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
                "reason": "Timeouts",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "Many Kafka transactions of one application time out.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ humanizePercentage $value }} of the transactions of group {{ $labels.group | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} in the last 15 minutes were aborted by their coordinator, because they were open for longer than their transaction.timeout.ms. read_committed consumers will never see their records, and their producers get an error.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionTimeouts.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionGroupFails",
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
                "reason": "FencingStorm",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "Producers of one application keep fencing each other, as two with the same transactional id do.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: producers of group {{ $labels.group | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} initialize transactional ids {{ printf \"%.0f\" $value }} times a minute, for longer than a deployment takes. Each time the previous producer of the id is fenced, and its open transaction is aborted.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionFencingStorm.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionGroupFails",
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
                "reason": "MarkersSlow",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "Kafka is slow to write the markers of committed or aborted transactions.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: one in a hundred transactions of group {{ $labels.group | reReplaceAll \"[^-_.:/=+a-zA-Z0-9]\" \"?\" | printf \"%.100q\" }} waits {{ humanizeDuration $value }} or longer for its last marker. Until then its producer cannot begin the next transaction, and read_committed consumers wait.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "page_url": "{{ with query (printf \"kafka_transaction_exporter_page_info and on (cluster, job, instance) instance:kafka_transaction_exporter_cluster_info:fresh{cluster=%q, cluster_id=%q}\" $labels.cluster $labels.cluster_id) }}{{ . | first | label \"url\" }}/{{ end }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionMarkersSlow.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
          ],
        },
        {
          "name": "kafka-transaction-exporter",
          "interval": "10s",
          "rules": [
            {
              "alert": "KafkaTransactionExporterBlind",
              "expr": |||
                (
                  max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    max_over_time(kafka_transaction_exporter_cluster_info[1d])
                  )
                  unless max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    kafka_transaction_exporter_cluster_info
                  )
                  unless
                    max_over_time(cluster:kafka_transaction_exporter_cluster_info:renamed[1d])
                    > max_over_time(cluster:kafka_transaction_exporter_cluster_info:timestamp[1d])
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
                "reason": "ExporterDown",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "No exporter reads the transactions of a Kafka cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id \"unknown\" }}, job {{ or $labels.job \"unknown\" }}: no instance of kafka-transaction-exporter responds to scrapes. No alert will fire for a hanging transaction.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterDown.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterBlind",
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
                "reason": "ExporterSnapshotStale",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "An exporter of Kafka transactions runs without a fresh snapshot of its cluster.",
                "description": "{{ with or $labels.cluster $externalLabels.cluster }}Cluster {{ . }}, job{{ else }}Job{{ end }} {{ $labels.job }}{{ with $labels.namespace }}, namespace {{ . }}{{ end }}: instances of kafka-transaction-exporter without a fresh snapshot for two minutes: {{ printf \"%.0f\" $value }}. Unless another instance reads the cluster, no other alert about it can fire.",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterSnapshotStale.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
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
                "reason": "ExporterCyclesFailing",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "Many cycles of an exporter of Kafka transactions fail.",
                "description": "{{ with or $labels.cluster $externalLabels.cluster }}Cluster {{ . }}, job{{ else }}Job{{ end }} {{ $labels.job }}{{ with $labels.namespace }}, namespace {{ . }}{{ end }}: {{ humanizePercentage $value }} of the cycles of the last 15 minutes failed or could not start. Hangs are found later than promised.",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterCyclesFailing.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
              "expr": |||
                min without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_coverage_complete:fresh
                )
                == 0
                unless ignoring (instance, pod, node, container, endpoint, pod_template_hash)
                  (instance:kafka_transaction_exporter_visible_topics:fresh == 0)
              |||,
              "for": "10m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
                "reason": "ExporterCoverageIncomplete",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "The transaction exporter cannot read a part of its Kafka cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: for ten minutes, a part could not be read. No alert can fire for the unread part.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterCoverageIncomplete.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterBlind",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_exporter_visible_topics:fresh
                )
                == 0
              |||,
              "for": "5m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "critical",
                "reason": "ExporterNoTopicVisible",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "The transaction exporter sees no topic of its Kafka cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the brokers show no topic to the exporter; its principal probably lacks DESCRIBE. No hang can be found, and no other alert will fire.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterNoTopicVisible.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
              "expr": |||
                (
                  max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    instance:kafka_transaction_exporter_visible_topics:fresh
                  )
                  / max without (instance, pod, node, container, endpoint, pod_template_hash) (
                    max_over_time(instance:kafka_transaction_exporter_visible_topics:fresh[1d])
                  )
                  < %(read_ratio)s # threshold: read_ratio
                  > 0
                  or
                    max without (instance, pod, node, container, endpoint, pod_template_hash) (
                      instance:kafka_transaction_exporter_partitions:responding
                    )
                    / max without (instance, pod, node, container, endpoint, pod_template_hash) (
                      max_over_time(instance:kafka_transaction_exporter_partitions:responding[1d])
                    )
                    < %(read_ratio)s # threshold: read_ratio
                )
                unless ignoring (instance, pod, node, container, endpoint, pod_template_hash)
                  (instance:kafka_transaction_exporter_coverage_complete:fresh == 0)
              ||| % $._config.thresholds,
              "for": "15m",
              "keep_firing_for": "5m",
              "labels": {
                "severity": "warning",
                "reason": "ExporterReadsLess",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "The transaction exporter reads less of its Kafka cluster than it did within the last day.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ humanizePercentage $value }} of the topics or partitions that were read within the last day are read now. Where nobody deleted topics, hangs in the others are not seen.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterReadsLess.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  topk without (instance, pod, node, container, endpoint, pod_template_hash, reason) (
                    1,
                    instance:kafka_transaction_exporter_inconclusive_transactions:fresh{
                      reason=~"transactional_ids_hidden|ids_visible_by_name_only|ids_may_be_denied|topics_hidden|transaction_state_hidden"
                    }
                  )
                )
                > 0
              |||,
              "for": "5m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
                "reason": "ExporterTransactionalIdsHidden",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "The transaction exporter lacks a grant to prove hangs.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ printf \"%.0f\" $value }} open transactions stay without a verdict because of {{ $labels.reason }}: the exporter's principal lacks a grant, or has a DENY. No hang can be proved there; only KafkaTransactionBlocksConsumersLong fires, twenty minutes later.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterTransactionalIdsHidden.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
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
                "reason": "ExporterConfigReloadFailed",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "A transaction exporter refused its changed configuration and runs with the old one.",
                "description": "{{ with or $labels.cluster $externalLabels.cluster }}Cluster {{ . }}, job{{ else }}Job{{ end }} {{ $labels.job }}{{ with $labels.namespace }}, namespace {{ . }}{{ end }}: the configuration in use was read {{ humanizeDuration $value }} ago, and the present one has an error. The exporter cannot start with it.",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterConfigReloadFailed.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
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
                "reason": "ExporterClockSkew",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "The clock of a transaction exporter is ahead of Prometheus.",
                "description": "{{ with or $labels.cluster $externalLabels.cluster }}Cluster {{ . }}, job{{ else }}Job{{ end }} {{ $labels.job }}{{ with $labels.namespace }}, namespace {{ . }}{{ end }}: the exporter's clock is {{ humanizeDuration $value }} ahead of Prometheus'. Ages are wrong by this difference, and a stopped exporter is noticed later by the same difference.",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterClockSkew.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
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
                "reason": "ExporterLogIncomplete",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "The transaction exporter cannot read or decode a part of Kafka's transaction log.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the exporter does not read all of the transaction log, __transaction_state, or cannot decode some of its records. Transactions by outcome and their durations are wrong; verdicts do not need the transaction log.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterLogIncomplete.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
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
                "reason": "ExporterLogBehind",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "An exporter reads Kafka's transaction log more slowly than it is written.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: {{ printf \"%.0f\" $value }} records of the transaction log, __transaction_state, are unread, and the number has not fallen for ten minutes. Transactions by outcome are counted late.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterLogBehind.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionExporterPartlyBlind",
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
                "reason": "ExporterHistoryNotWritten",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "A transaction exporter cannot write its history.",
                "description": "{{ with or $labels.cluster $externalLabels.cluster }}Cluster {{ . }}, job{{ else }}Job{{ end }} {{ $labels.job }}{{ with $labels.namespace }}, namespace {{ . }}{{ end }}: the history is not written, or observations were dropped because too many waited. Waiting observations are in memory, and lost when the exporter is killed.",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionExporterHistoryNotWritten.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
            },
            {
              "alert": "KafkaTransactionProtectionMissing",
              "expr": |||
                max without (instance, pod, node, container, endpoint, pod_template_hash) (
                  instance:kafka_transaction_protection:fresh{check=~"partition_verification|state_topic_unclean_election|state_topic_replicas|state_topic_min_in_sync|state_topic_cleanup"}
                )
                == 0
              |||,
              "for": "15m",
              "keep_firing_for": "10m",
              "labels": {
                "severity": "warning",
                "reason": "ProtectionMissing",
                "component": "kafka-transactions",
              },
              "annotations": {
                "summary": "A setting of the Kafka cluster lets transactions hang.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }}: the check {{ $labels.check }} found a setting that lets transactions hang, or be lost with a disk. Whether a transaction hangs now is the matter of KafkaTransactionHanging.",
                "variables": "export KAFKA_TRANSACTION_EXPORTER_CLUSTER_ID={{ $labels.cluster_id | reReplaceAll \"[^-_a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionProtectionMissing.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
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
                "reason": "Watchdog",
                "component": "kafka-transaction-exporter",
              },
              "annotations": {
                "summary": "Always fires while an exporter reads the transactions of a Kafka cluster.",
                "description": "Cluster {{ or $labels.cluster $externalLabels.cluster $labels.cluster_id }} is read, and alerts about it reach Alertmanager. Route this alert to a dead man's switch, which pages when it stops.",
                "variables": "export PROMETHEUS={{ $externalURL | reReplaceAll \"[^-_.:/a-zA-Z0-9]\" \"?\" }}",
                "runbook_url": $._config.runbookBase + "/KafkaTransactionWatchdog.md",
              } + { [if $._config.grafanaUrl != '' then 'dashboard_url']: $._config.grafanaUrl + "/d/kafka-transactions-overview?{{ with $labels.cluster }}var-cluster={{ . | urlquery }}{{ end }}" },
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
