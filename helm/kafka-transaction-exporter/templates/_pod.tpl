{{/* What the exporter's pod, the test's and the pipeline's share. */}}

{{/* `include` it with a mapping: root and image. */}}
{{- define "kafka-transaction-exporter.image" -}}
{{- $image := .image }}
{{- $registry := default (default .root.Values.image.registry $image.registry) .root.Values.global.imageRegistry }}
{{- $name := ternary (printf "%s/%s" (trimSuffix "/" $registry) $image.repository) $image.repository (ne $registry "") }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default .root.Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* Of the pod: who it is, where it runs. */}}
{{- define "kafka-transaction-exporter.podSpec" -}}
serviceAccountName: {{ include "kafka-transaction-exporter.serviceAccountName" . | toJson }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with concat .Values.global.imagePullSecrets .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {{ kindIs "string" . | ternary (dict "name" .) . | toJson }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- range $key := list "nodeSelector" "tolerations" "priorityClassName" "runtimeClassName" "schedulerName" "hostAliases" "dnsPolicy" "dnsConfig" }}
{{- with get $.Values $key }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{/* Of the container: program and rights. `include` it with a mapping: root and image; with `hasSettings` the program finds its
settings, with `isServing` the command `get` finds the web server and `incident` the state, all without an option. */}}
{{- define "kafka-transaction-exporter.container" -}}
image: {{ include "kafka-transaction-exporter.image" . | quote }}
imagePullPolicy: {{ .image.pullPolicy | toJson }}
securityContext:
  {{- toYaml .root.Values.securityContext | nindent 2 }}
{{- $environment := list }}
{{- if .hasSettings }}
{{- $environment = list (dict "name" "KAFKA_TRANSACTION_EXPORTER_CONFIG_FILE" "value" (include "kafka-transaction-exporter.configFile" .root)) }}
{{- with include "kafka-transaction-exporter.clustersFile" .root }}
{{- $environment = append $environment (dict "name" "KAFKA_TRANSACTION_EXPORTER_CLUSTERS_FILE" "value" .) }}
{{- end }}
{{- end }}
{{- if include "kafka-transaction-exporter.isFleet" .root }}
{{- $environment = append $environment (dict "name" "STATE_DIRECTORY" "value" "/var/lib/kafka-transaction-exporter") }}
{{- end }}
{{- if .isServing }}
{{- $address := printf "%s:%v" .root.Values.listenHost .root.Values.containerPort }}
{{- $environment = append $environment (dict "name" "KAFKA_TRANSACTION_EXPORTER__PUBLISH__LISTEN_ADDRESS" "value" $address) }}
{{- if not (include "kafka-transaction-exporter.isFleet" .root) }}
{{- $environment = append $environment (dict "name" "KAFKA_TRANSACTION_EXPORTER__STATE__FILE" "value" "/var/lib/kafka-transaction-exporter/state.json") }}
{{- end }}
{{- if .root.Values.webConfig.existingSecret }}
{{- $file := printf "/etc/kafka-transaction-exporter/web/%s" .root.Values.webConfig.key }}
{{- $environment = append $environment (dict "name" "KAFKA_TRANSACTION_EXPORTER__PUBLISH__WEB_CONFIG_FILE" "value" $file) }}
{{- end }}
{{- end }}
{{- with concat $environment .root.Values.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kafka-transaction-exporter.configFile" -}}
/etc/kafka-transaction-exporter/config/{{ ternary .Values.existingConfig.key "config.yaml" (ne (include "kafka-transaction-exporter.hasExistingConfig" .) "") }}
{{- end }}

{{/* Empty without a fleet. */}}
{{- define "kafka-transaction-exporter.clustersFile" -}}
{{- if include "kafka-transaction-exporter.isFleet" . -}}
/etc/kafka-transaction-exporter/config/{{ default "clusters.yaml" .Values.existingConfig.clustersKey }}
{{- end }}
{{- end }}

{{/* Whole folders, never single files by subPath: those would not follow a Secret that changes. */}}
{{- define "kafka-transaction-exporter.volumeMounts" -}}
- name: config
  mountPath: /etc/kafka-transaction-exporter/config
  readOnly: true
{{- range (include "kafka-transaction-exporter.kafka" . | fromYaml).mounts }}
- name: {{ .name }}
  mountPath: /etc/kafka-transaction-exporter/secrets/{{ .name }}
  readOnly: true
{{- end }}
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kafka-transaction-exporter.volumes" -}}
- name: config
  {{- if .Values.existingConfig.secret }}
  secret:
    secretName: {{ .Values.existingConfig.secret | toJson }}
    defaultMode: 0440
  {{- else }}
  configMap:
    name: {{ default (include "kafka-transaction-exporter.fullname" .) .Values.existingConfig.configMap | toJson }}
  {{- end }}
{{- range (include "kafka-transaction-exporter.kafka" . | fromYaml).mounts }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | toJson }}
    defaultMode: 0440
    items:
      {{- range .keys }}
      - key: {{ . | toJson }}
        path: {{ . | toJson }}
      {{- end }}
{{- end }}
# a PKCS12 store's key passes through here, for a moment: in memory only
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The volume of `persistence`: the state file, and what the pipeline reads and writes. */}}
{{- define "kafka-transaction-exporter.claim" -}}
{{- default (include "kafka-transaction-exporter.fullname" .) .Values.persistence.existingClaim }}
{{- end }}

{{- define "kafka-transaction-exporter.hasClaim" -}}
{{- if or .Values.persistence.enabled .Values.persistence.existingClaim }}true{{ end }}
{{- end }}

{{/* Whether cycles are recorded on that volume. */}}
{{- define "kafka-transaction-exporter.hasHistory" -}}
{{- if or .Values.history.enabled (include "kafka-transaction-exporter.hasPipeline" .) }}true{{ end }}
{{- end }}

{{/* A probe: what the values say, and our path unless they say something else to ask. */}}
{{- define "kafka-transaction-exporter.probe" -}}
{{- $probe := deepCopy .probe }}
{{- if not (or $probe.exec $probe.tcpSocket $probe.grpc) }}
{{- if and .root.Values.webConfig.tcpProbes (not $probe.httpGet) }}
{{- $_ := set $probe "tcpSocket" (dict "port" "metrics") }}
{{- else }}
{{- $ours := dict "path" .path "port" "metrics" "scheme" .root.Values.webConfig.scheme }}
{{- $_ := set $probe "httpGet" (merge (default dict $probe.httpGet) $ours) }}
{{- end }}
{{- end }}
{{- toYaml $probe }}
{{- end }}
