{{/* From values to the program's settings, and to the Secrets that they need. */}}

{{/* A mapping of settings, however deep, as `section.key: value` in `into`; `of` is where they stand in the values. */}}
{{- define "kafka-transaction-exporter.flatten" -}}
{{- range $key, $value := .value }}
{{- $name := ternary (printf "%s.%s" $.prefix $key) $key (ne $.prefix "") }}
{{- if kindIs "map" $value }}
{{- include "kafka-transaction-exporter.flatten" (dict "of" $.of "value" $value "prefix" $name "into" $.into) }}
{{- else if hasKey $.into $name }}
{{- fail (printf "%s: %s is set twice" $.of $name) }}
{{- else if and (has $name (list "kafka.sasl.password" "kafka.sasl.oauthbearer.client.secret" "kafka.ssl.key.password" "kafka.ssl.keystore.password" "kafka.ssl.truststore.password")) (not (regexMatch "^[$][{](file|env):[^{}]+[}]$" (toString $value))) }}
{{- fail (printf "%s: %s would be in a ConfigMap, where anybody reads it: put it into a Secret, and name that in kafka.sasl or kafka.tls (or write ${file:PATH} or ${env:NAME} here)" $.of $name) }}
{{- else }}
{{- include "kafka-transaction-exporter.checkNoCredentials" (dict "of" (printf "%s: %s" $.of $name) "value" $value) }}
{{- $_ := set $.into $name $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* The program refuses such an address, too, but then it is in the ConfigMap. Azure's has its container there: CONTAINER@ACCOUNT. */}}
{{- define "kafka-transaction-exporter.checkNoCredentials" -}}
{{- $isAzure := regexMatch "^(?i:abfss?)://[a-z0-9-]+@[a-z0-9]+[.]dfs[.]core[.]windows[.]net(/|$)" (toString .value) }}
{{- if and (regexMatch "://[^/?#]*@" (toString .value)) (not $isAzure) }}
{{- fail (printf "%s has a user or a password in its address, and would be in a ConfigMap, where anybody reads it: an object store's are environment variables (extraEnv)" .of) }}
{{- end }}
{{- end }}

{{- define "kafka-transaction-exporter.hasExistingConfig" -}}
{{- with .Values.existingConfig }}
{{- if and .configMap .secret }}
{{- fail "existingConfig: configMap and secret cannot both be set" }}
{{- end }}
{{- if or .configMap .secret }}true{{ end }}
{{- end }}
{{- end }}

{{/* True for many clusters in one release. */}}
{{- define "kafka-transaction-exporter.isFleet" -}}
{{- $hasExisting := include "kafka-transaction-exporter.hasExistingConfig" . }}
{{- if and .Values.clusters $hasExisting }}
{{- fail "existingConfig replaces clusters: put them there, under the key existingConfig.clustersKey" }}
{{- end }}
{{- if and .Values.existingConfig.clustersKey (not $hasExisting) }}
{{- fail "existingConfig.clustersKey needs existingConfig.configMap or existingConfig.secret" }}
{{- end }}
{{- if or .Values.clusters .Values.existingConfig.clustersKey }}
{{- if .Values.clusterLabel }}
{{- fail "clusterLabel is for one cluster: of several, each series has the label cluster already" }}
{{- end -}}
true
{{- end }}
{{- end }}

{{/* Where the settings are: arguments of every command that asks brokers. */}}
{{- define "kafka-transaction-exporter.settingsArguments" -}}
- {{ printf "--config.file=%s" (include "kafka-transaction-exporter.configFile" .) | toJson }}
{{- with include "kafka-transaction-exporter.clustersFile" . }}
- {{ printf "--clusters=%s" . | toJson }}
{{- end }}
{{- end }}

{{/* Settings by name, of each cluster, as a list in YAML; without those of an existing configuration. */}}
{{- define "kafka-transaction-exporter.allSettings" -}}
{{- $all := list (include "kafka-transaction-exporter.settings" . | fromYaml | default dict) }}
{{- range $name, $cluster := .Values.clusters }}
{{- $flat := dict }}
{{- include "kafka-transaction-exporter.flatten" (dict "of" (print "clusters." $name) "value" $cluster "prefix" "" "into" $flat) }}
{{- $all = append $all $flat }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{/*
What `kafka` in the values comes to, as YAML: `settings` by name, and `mounts`, each a Secret with the keys that are read.
Strimzi's names only stand for the Secrets that a person would have written.
*/}}
{{- define "kafka-transaction-exporter.kafka" -}}
{{- $settings := dict }}
{{- $mounts := list }}
{{- $folder := "/etc/kafka-transaction-exporter/secrets" }}
{{- $kafka := deepCopy .Values.kafka }}
{{- $tls := $kafka.tls }}
{{- $sasl := $kafka.sasl }}
{{- with $kafka.strimzi }}
{{- if .clusterCa }}
{{- if or $tls.ca.existingSecret $tls.truststore.existingSecret }}
{{- fail "kafka.strimzi.clusterCa cannot be combined with kafka.tls.ca or kafka.tls.truststore" }}
{{- end }}
{{- if eq .format "PKCS12" }}
{{- $_ := set $tls "truststore" (dict "existingSecret" .clusterCa "key" "ca.p12" "passwordKey" "ca.password") }}
{{- else }}
{{- $_ := set $tls "ca" (dict "existingSecret" .clusterCa "key" "ca.crt") }}
{{- end }}
{{- end }}
{{- if .user }}
{{- if eq .authentication "scram-sha-512" }}
{{- if or $sasl.mechanism $sasl.username $sasl.existingSecret }}
{{- fail "kafka.strimzi.user with scram-sha-512 cannot be combined with kafka.sasl" }}
{{- end }}
{{- $sasl = merge (dict "mechanism" "SCRAM-SHA-512" "username" .user "existingSecret" .user "passwordKey" "password") $sasl }}
{{- else if or $tls.client.existingSecret $tls.keystore.existingSecret }}
{{- fail "kafka.strimzi.user cannot be combined with kafka.tls.client or kafka.tls.keystore" }}
{{- else if eq .format "PKCS12" }}
{{- $_ := set $tls "keystore" (dict "existingSecret" .user "key" "user.p12" "passwordKey" "user.password") }}
{{- else }}
{{- $_ := set $tls "client" (dict "existingSecret" .user "certificateKey" "user.crt" "keyKey" "user.key" "keyPasswordKey" "") }}
{{- end }}
{{- end }}
{{- end }}

{{- with $kafka.bootstrapServers }}
{{- $_ := set $settings "kafka.bootstrap.servers" (kindIs "slice" . | ternary . (list .) | join ",") }}
{{- end }}

{{- if and $tls.ca.existingSecret $tls.truststore.existingSecret }}
{{- fail "kafka.tls: ca and truststore cannot both be set" }}
{{- end }}
{{- if and $tls.client.existingSecret $tls.keystore.existingSecret }}
{{- fail "kafka.tls: client and keystore cannot both be set" }}
{{- end }}
{{- $hasTls := or $tls.enabled $tls.ca.existingSecret $tls.truststore.existingSecret $tls.client.existingSecret $tls.keystore.existingSecret (eq $sasl.mechanism "AWS_MSK_IAM") }}
{{- if or $hasTls $sasl.mechanism }}
{{- $protocol := ternary (ternary "SASL_SSL" "SSL" (ne $sasl.mechanism "")) "SASL_PLAINTEXT" (not (empty $hasTls)) }}
{{- $_ := set $settings "kafka.security.protocol" $protocol }}
{{- end }}
{{- if not $tls.verifyHostname }}
{{- if not $hasTls }}
{{- fail "kafka.tls.verifyHostname has no effect without TLS" }}
{{- end }}
{{- $_ := set $settings "kafka.ssl.endpoint.identification.algorithm" "none" }}
{{- end }}
{{- with $tls.ca }}
{{- if .existingSecret }}
{{- $_ := set $settings "kafka.ssl.ca.location" (printf "%s/kafka-ca/%s" $folder .key) }}
{{- $mounts = append $mounts (dict "name" "kafka-ca" "secret" .existingSecret "keys" (list .key)) }}
{{- end }}
{{- end }}
{{- with $tls.truststore }}
{{- if .existingSecret }}
{{- $_ := set $settings "kafka.ssl.truststore.location" (printf "%s/kafka-truststore/%s" $folder .key) }}
{{- $_ := set $settings "kafka.ssl.truststore.password_file" (printf "%s/kafka-truststore/%s" $folder .passwordKey) }}
{{- $mounts = append $mounts (dict "name" "kafka-truststore" "secret" .existingSecret "keys" (list .key .passwordKey)) }}
{{- end }}
{{- end }}
{{- with $tls.client }}
{{- if .existingSecret }}
{{- $keys := list .certificateKey .keyKey }}
{{- $_ := set $settings "kafka.ssl.certificate.location" (printf "%s/kafka-client/%s" $folder .certificateKey) }}
{{- $_ := set $settings "kafka.ssl.key.location" (printf "%s/kafka-client/%s" $folder .keyKey) }}
{{- if .keyPasswordKey }}
{{- $_ := set $settings "kafka.ssl.key.password_file" (printf "%s/kafka-client/%s" $folder .keyPasswordKey) }}
{{- $keys = append $keys .keyPasswordKey }}
{{- end }}
{{- $mounts = append $mounts (dict "name" "kafka-client" "secret" .existingSecret "keys" $keys) }}
{{- end }}
{{- end }}
{{- with $tls.keystore }}
{{- if .existingSecret }}
{{- $_ := set $settings "kafka.ssl.keystore.location" (printf "%s/kafka-keystore/%s" $folder .key) }}
{{- $_ := set $settings "kafka.ssl.keystore.password_file" (printf "%s/kafka-keystore/%s" $folder .passwordKey) }}
{{- $mounts = append $mounts (dict "name" "kafka-keystore" "secret" .existingSecret "keys" (list .key .passwordKey)) }}
{{- end }}
{{- end }}

{{- if and (not $sasl.mechanism) (or $sasl.username $sasl.existingSecret $sasl.usernameKey $sasl.oauthbearer.tokenEndpointUrl) }}
{{- fail "kafka.sasl.mechanism is missing" }}
{{- end }}
{{- if eq $sasl.mechanism "OAUTHBEARER" }}
{{- if or $sasl.username $sasl.usernameKey }}
{{- fail "kafka.sasl: OAUTHBEARER needs oauthbearer.clientId instead of a username" }}
{{- end }}
{{- with $sasl.oauthbearer }}
{{- $_ := set $settings "kafka.sasl.oauthbearer.token.endpoint.url" (required "kafka.sasl.oauthbearer.tokenEndpointUrl is missing" .tokenEndpointUrl) }}
{{- $_ := set $settings "kafka.sasl.oauthbearer.client.id" (required "kafka.sasl.oauthbearer.clientId is missing" .clientId) }}
{{- $_ := set $settings "kafka.sasl.oauthbearer.client.secret_file" (printf "%s/kafka-sasl/%s" $folder .clientSecretKey) }}
{{- with .scope }}
{{- $_ := set $settings "kafka.sasl.oauthbearer.scope" . }}
{{- end }}
{{- with .ca }}
{{- if .existingSecret }}
{{- $_ := set $settings "kafka.https.ca.location" (printf "%s/token-endpoint-ca/%s" $folder .key) }}
{{- $mounts = append $mounts (dict "name" "token-endpoint-ca" "secret" .existingSecret "keys" (list .key)) }}
{{- end }}
{{- end }}
{{- end }}
{{- $secret := required "kafka.sasl.existingSecret is missing" $sasl.existingSecret }}
{{- $mounts = append $mounts (dict "name" "kafka-sasl" "secret" $secret "keys" (list $sasl.oauthbearer.clientSecretKey)) }}
{{- else if eq $sasl.mechanism "AWS_MSK_IAM" }}
{{- if or $sasl.username $sasl.usernameKey $sasl.existingSecret }}
{{- fail "kafka.sasl: AWS_MSK_IAM takes no username and no Secret: the role of the service account logs in" }}
{{- end }}
{{- else if $sasl.mechanism }}
{{- $secret := required "kafka.sasl.existingSecret is missing" $sasl.existingSecret }}
{{- if and $sasl.username $sasl.usernameKey }}
{{- fail "kafka.sasl: username and usernameKey cannot both be set" }}
{{- end }}
{{- $keys := list $sasl.passwordKey }}
{{- if $sasl.usernameKey }}
{{- $keys = append $keys $sasl.usernameKey }}
{{- $_ := set $settings "kafka.sasl.username" (printf "${file:%s/kafka-sasl/%s}" $folder $sasl.usernameKey) }}
{{- else }}
{{- $_ := set $settings "kafka.sasl.username" (required "kafka.sasl.username or usernameKey is missing" $sasl.username) }}
{{- end }}
{{- $_ := set $settings "kafka.sasl.password_file" (printf "%s/kafka-sasl/%s" $folder $sasl.passwordKey) }}
{{- $mounts = append $mounts (dict "name" "kafka-sasl" "secret" $secret "keys" $keys) }}
{{- end }}
{{- with $sasl.mechanism }}
{{- $_ := set $settings "kafka.sasl.mechanism" . }}
{{- end }}
{{- dict "settings" $settings "mounts" $mounts | toYaml }}
{{- end }}

{{/* A duration in milliseconds; empty for a reference or what the schema refuses. */}}
{{- define "kafka-transaction-exporter.milliseconds" -}}
{{- $text := toString . }}
{{- if regexMatch "^[0-9]+([.][0-9]+)?(ms|s|m|h|d)$" $text }}
{{- $unit := get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000) (regexFind "[a-z]+$" $text) }}
{{- mulf (regexFind "^[0-9.]+" $text | float64) $unit }}
{{- end }}
{{- end }}

{{/* The pod would refuse it, and restart for ever. `of` is where the settings stand in the values. */}}
{{- define "kafka-transaction-exporter.checkDeadline" -}}
{{- $interval := include "kafka-transaction-exporter.milliseconds" (get .settings "scan.interval" | default "30s") }}
{{- $deadline := include "kafka-transaction-exporter.milliseconds" (get .settings "scan.deadline" | default "") }}
{{- if and $interval $deadline (ge (float64 $deadline) (float64 $interval)) }}
{{- fail (printf "%s: scan.deadline must be shorter than scan.interval, or cycles would be missed" .of) }}
{{- end }}
{{- end }}

{{/* The same of an address, which a schema could only refuse with a pattern. */}}
{{- define "kafka-transaction-exporter.checkServers" -}}
{{- $of := .of }}
{{- $servers := get .settings "kafka.bootstrap.servers" }}
{{- range (kindIs "slice" $servers | ternary $servers (splitList "," (toString $servers))) }}
{{- $server := trim (toString .) }}
{{- if and $server (not (contains "${" $server)) }}
{{- $isAddress := regexMatch "^(\\[[0-9a-fA-F:.%]+\\]|[^][:,@\\s]+):[0-9]{1,5}$" $server }}
{{- $port := ternary (regexFind "[0-9]+$" $server) "0" $isAddress | atoi }}
{{- if or (lt $port 1) (gt $port 65535) }}
{{- fail (printf "%s: %q is not host:port" $of $server) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* All settings of the ConfigMap by name, as YAML; nothing with an existing configuration. */}}
{{- define "kafka-transaction-exporter.settings" -}}
{{- $fromKafka := (include "kafka-transaction-exporter.kafka" . | fromYaml).settings }}
{{- if include "kafka-transaction-exporter.hasExistingConfig" . }}
{{- $_ := include "kafka-transaction-exporter.isFleet" . }}
{{- if or .Values.config $fromKafka }}
{{- fail "existingConfig replaces config and kafka: set either existingConfig or the other two" }}
{{- end }}
{{- else }}
{{- $settings := dict }}
{{- include "kafka-transaction-exporter.flatten" (dict "of" "config" "value" .Values.config "prefix" "" "into" $settings) }}
{{- range $name, $value := dict "publish.listen_address" "listenHost and containerPort" "publish.web_config_file" "webConfig" "state.file" "persistence" }}
{{- if hasKey $settings $name }}
{{- fail (printf "config: %s is set by the chart, see %s" $name $value) }}
{{- end }}
{{- end }}
{{- include "kafka-transaction-exporter.checkDeadline" (dict "of" "config" "settings" $settings) }}
{{- if and (hasKey $settings "history.directory") (include "kafka-transaction-exporter.hasHistory" .) }}
{{- fail "config: the chart sets history.directory with history.enabled and with the pipeline" }}
{{- end }}
{{- if and (hasKey $settings "baseline.file") (include "kafka-transaction-exporter.hasPipeline" .) }}
{{- fail "config: the chart sets baseline.file with the pipeline" }}
{{- end }}
{{- range $name, $value := $fromKafka }}
{{- include "kafka-transaction-exporter.checkNoCredentials" (dict "of" $name "value" $value) }}
{{- if hasKey $settings $name }}
{{- fail (printf "%s is set twice, by config and by kafka" $name) }}
{{- end }}
{{- $_ := set $settings $name $value }}
{{- end }}
{{- $servers := get $settings "kafka.bootstrap.servers" }}
{{- if include "kafka-transaction-exporter.isFleet" . }}
{{- if $servers }}
{{- fail "kafka.bootstrapServers is of one cluster: with clusters, each of them has its own" }}
{{- end }}
{{- if hasKey $settings "cluster.name" }}
{{- fail "config: cluster.name is for one cluster: with clusters, each of them has the name that it has there" }}
{{- end }}
{{- range $name, $cluster := .Values.clusters }}
{{- $flat := dict }}
{{- include "kafka-transaction-exporter.flatten" (dict "of" (print "clusters." $name) "value" $cluster "prefix" "" "into" $flat) }}
{{- $_ := required (printf "clusters.%s: kafka.bootstrap.servers is missing" $name) (get $flat "kafka.bootstrap.servers") }}
{{- include "kafka-transaction-exporter.checkServers" (dict "of" (printf "clusters.%s" $name) "settings" $flat) }}
{{- include "kafka-transaction-exporter.checkDeadline" (dict "of" (print "clusters." $name) "settings" (merge (dict) $flat $settings)) }}
{{- end }}
{{- else }}
{{- $_ := required "kafka.bootstrapServers is missing: the brokers to ask first, for instance [kafka-bootstrap:9092]" $servers }}
{{- include "kafka-transaction-exporter.checkServers" (dict "of" "kafka.bootstrapServers" "settings" $settings) }}
{{- end }}
{{- with .Values.ingress }}
{{- if and .enabled .hosts (not (hasKey $settings "publish.external_url")) }}
{{- $_ := set $settings "publish.external_url" (printf "%s://%s%s" (ternary "https" "http" (gt (len .tls) 0)) (first .hosts) (trimSuffix "/" .path)) }}
{{- end }}
{{- end }}
{{- toYaml $settings }}
{{- end }}
{{- end }}
