{{/* What the CronJob and the ScheduledSparkApplication share. */}}

{{/* A CronJob's name has at most 52 letters. */}}
{{- define "kafka-transaction-exporter.pipelineName" -}}
{{ include "kafka-transaction-exporter.fullname" . | trunc 43 | trimSuffix "-" }}-pipeline
{{- end }}

{{- define "kafka-transaction-exporter.hasPipeline" -}}
{{- if or .Values.pipeline.enabled .Values.pipeline.sparkApplication.enabled }}true{{ end }}
{{- end }}

{{/* Arguments of the program. */}}
{{- define "kafka-transaction-exporter.pipelineArguments" -}}
- pipeline
- run
- --history=/var/lib/kafka-transaction-exporter/history
- --tables=/var/lib/kafka-transaction-exporter/tables
{{- with .Values.pipeline.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Fails where no volume is there for both pods. */}}
{{- define "kafka-transaction-exporter.pipelineNeeds" -}}
{{- if and .Values.pipeline.enabled .Values.pipeline.sparkApplication.enabled }}
{{- fail "pipeline.enabled and pipeline.sparkApplication.enabled cannot both be set: both would write the same tables" }}
{{- end }}
{{- if not (include "kafka-transaction-exporter.hasClaim" .) }}
{{- fail "pipeline needs persistence: it reads the history from that volume, and writes its tables there" }}
{{- end }}
{{- if has "ReadWriteOncePod" .Values.persistence.accessModes }}
{{- fail "pipeline needs a volume for more than one pod, but persistence.accessModes has ReadWriteOncePod" }}
{{- end }}
{{- end }}
