{{/* Names and labels. */}}

{{- define "kafka-transaction-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The release's name, with the chart's behind it unless it is there already. 50 letters leave room for endings. */}}
{{- define "kafka-transaction-exporter.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "kafka-transaction-exporter.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "kafka-transaction-exporter.serviceAccountName" -}}
{{- $own := ternary (include "kafka-transaction-exporter.fullname" .) "default" .Values.serviceAccount.create }}
{{- default $own .Values.serviceAccount.name }}
{{- end }}

{{/* Of this release, its test included. */}}
{{- define "kafka-transaction-exporter.releaseLabels" -}}
app.kubernetes.io/name: {{ include "kafka-transaction-exporter.name" . | toJson }}
app.kubernetes.io/instance: {{ .Release.Name | toJson }}
{{- end }}

{{/* Of the pods that serve. A Deployment's selector can never change: nothing may be added here. */}}
{{- define "kafka-transaction-exporter.selectorLabels" -}}
{{ include "kafka-transaction-exporter.releaseLabels" . }}
app.kubernetes.io/component: exporter
{{- end }}

{{/* Of every object and pod. `include` it with a mapping: root, and perhaps component and labels. Ours win: objects find each other by them. */}}
{{- define "kafka-transaction-exporter.labels" -}}
{{- $root := .root }}
{{- $own := include "kafka-transaction-exporter.releaseLabels" $root | fromYaml }}
{{- $_ := set $own "app.kubernetes.io/component" (default "exporter" .component) }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $_ := set $own "app.kubernetes.io/version" ($root.Chart.AppVersion | toString) }}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $_ := set $own "app.kubernetes.io/part-of" $root.Chart.Name }}
{{- mergeOverwrite (deepCopy $root.Values.commonLabels) (default dict .labels) $own | toYaml }}
{{- end }}

{{/* `metadata` of every object. `include` it with a mapping: root, and perhaps name, namespace, component, labels, annotations. */}}
{{- define "kafka-transaction-exporter.metadata" -}}
name: {{ default (include "kafka-transaction-exporter.fullname" .root) .name | toJson }}
namespace: {{ default (include "kafka-transaction-exporter.namespace" .root) .namespace | toJson }}
labels:
  {{- include "kafka-transaction-exporter.labels" . | nindent 2 }}
{{- with mergeOverwrite (deepCopy .root.Values.commonAnnotations) (default dict .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
