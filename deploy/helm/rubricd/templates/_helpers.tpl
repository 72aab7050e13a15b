{{- define "rubricd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "rubricd.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "rubricd.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "rubricd.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What never changes over the life of a release: selectors and claim templates are immutable. */}}
{{- define "rubricd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "rubricd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rubricd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "rubricd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: monitor
app.kubernetes.io/part-of: rubricd
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rubricd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rubricd.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rubricd.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "rubricd.configMap" -}}
{{- default (include "rubricd.fullname" .) .Values.existingConfigMap -}}
{{- end -}}

{{- define "rubricd.tls" -}}
{{- $tls := dict "cert_file" (printf "%s/tls.crt" .folder) "key_file" (printf "%s/tls.key" .folder) -}}
{{- if .clientCA -}}{{- $_ := set $tls "client_ca_file" (printf "%s/ca.crt" .folder) -}}{{- end -}}
{{- toJson $tls -}}
{{- end -}}

{{/* rubricd.yaml: the chart's part under the values' own; secrets come as files. As JSON, for fromJson. */}}
{{- define "rubricd.config" -}}
{{- $secrets := "/etc/rubricd/secrets" -}}
{{- $grpc := dict "endpoint" "0.0.0.0:4317" -}}
{{- $http := dict "endpoint" "0.0.0.0:4318" -}}
{{- $server := dict "endpoint" "0.0.0.0:8464" -}}
{{- with .Values.receivers.tls -}}{{- if .existingSecret -}}
{{- $tls := include "rubricd.tls" (dict "folder" (printf "%s/receiver-tls" $secrets) "clientCA" .clientCA) | fromJson -}}
{{- $_ := set $grpc "tls" $tls -}}{{- $_ := set $http "tls" $tls -}}
{{- end -}}{{- end -}}
{{- if .Values.receivers.auth.existingSecret -}}
{{- $auth := dict "bearer_token_file" (printf "%s/receiver-auth/token" $secrets) -}}
{{- $_ := set $grpc "auth" $auth -}}{{- $_ := set $http "auth" $auth -}}
{{- end -}}
{{- with .Values.server.tls -}}{{- if .existingSecret -}}
{{- $_ := set $server "tls" (include "rubricd.tls" (dict "folder" (printf "%s/server-tls" $secrets) "clientCA" .clientCA) | fromJson) -}}
{{- end -}}{{- end -}}
{{- if .Values.server.auth.existingSecret -}}
{{- $_ := set $server "auth" (dict "bearer_token_file" (printf "%s/server-auth/token" $secrets)) -}}
{{- end -}}
{{- $config := dict "collectors" (dict "otlp" (dict "protocols" (dict "grpc" $grpc "http" $http))) "storage" (dict "path" "/var/lib/rubricd") "server" $server -}}
{{- if .Values.judgeKeys -}}
{{- $judges := dict -}}
{{- range $name, $_ := .Values.judgeKeys -}}
{{- if not (hasKey (default dict $.Values.config.judges) $name) -}}
{{- fail (printf "judgeKeys.%s: config.judges has no judge of that name" $name) -}}
{{- end -}}
{{- $_ := set $judges $name (dict "api_key_file" (printf "%s/judge-%s/key" $secrets $name)) -}}
{{- end -}}
{{- $_ := set $config "judges" $judges -}}
{{- end -}}
{{- if .Values.rubrics -}}
{{- $_ := set $config "rubric_files" (list "rubrics.*.yaml") -}}
{{- end -}}
{{- toJson (mergeOverwrite $config (deepCopy .Values.config)) -}}
{{- end -}}

{{/* Sections that a running daemon does not take over: a change of them has to start a new pod. */}}
{{- define "rubricd.restartChecksum" -}}
{{- $config := include "rubricd.config" . | fromJson -}}
{{- pick $config "collectors" "storage" "server" "exporters" "metrics" | toJson | sha256sum -}}
{{- end -}}

{{- define "rubricd.probe" -}}
{{- if and .Values.server.tls.existingSecret .Values.server.tls.clientCA -}}
tcpSocket: {port: api}
{{- else -}}
httpGet:
  path: {{ .path }}
  port: api
  scheme: {{ ternary "HTTPS" "HTTP" (not (empty .Values.server.tls.existingSecret)) }}
{{- end -}}
{{- end -}}
