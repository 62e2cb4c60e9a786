{{/* What ServiceMonitor and PodMonitor share: one endpoint. `include` it with a mapping: root, monitor. */}}
{{- define "kafka-transaction-exporter.endpoint" -}}
{{- $ours := dict "port" "metrics" "path" "/metrics" }}
{{- if eq .root.Values.webConfig.scheme "HTTPS" }}
{{- $_ := set $ours "scheme" "https" }}
{{- end }}
{{- with .monitor }}
{{- with .interval }}
{{- $_ := set $ours "interval" . }}
{{- end }}
{{- with .scrapeTimeout }}
{{- $_ := set $ours "scrapeTimeout" . }}
{{- end }}
{{- $relabelings := .relabelings }}
{{- with $.root.Values.clusterLabel }}
{{- $relabelings = append $relabelings (dict "action" "replace" "targetLabel" "cluster" "replacement" .) }}
{{- end }}
{{- with $relabelings }}
{{- $_ := set $ours "relabelings" . }}
{{- end }}
{{- with .metricRelabelings }}
{{- $_ := set $ours "metricRelabelings" . }}
{{- end }}
{{- mergeOverwrite $ours .endpoint | toYaml }}
{{- end }}
{{- end }}

{{/* What an alert says where it is about the cluster of this release: `own`; else `other`. One release has the rules of all, and
its pod, asked about another cluster, would say what is not true. `include` it with a mapping: root, own, other. */}}
{{- define "kafka-transaction-exporter.ofItsCluster" -}}
{{- with .root.Values.clusterLabel }}
{{- printf "{{ if or (not $labels.cluster) (eq $labels.cluster %q) }}%s{{ else }}%s{{ end }}" . $.own $.other }}
{{- else }}
{{- .own }}
{{- end }}
{{- end }}
