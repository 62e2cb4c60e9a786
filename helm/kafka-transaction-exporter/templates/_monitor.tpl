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
