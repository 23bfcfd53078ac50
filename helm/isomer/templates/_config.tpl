{{/* The configuration of each server, as the chart makes it; `config` of the values is laid over it. */}}

{{/* What every server has. dict root, drainSeconds, clients (whether TLS asks for a certificate) */}}
{{- define "isomer.config.server" -}}
server:
  listen: "0.0.0.0:50051"
  shutdown_grace_seconds: {{ .drainSeconds }}
  {{- if ne .root.Values.tls.mode "none" }}
  tls:
    certificate_file: /etc/isomer/tls/tls.crt
    key_file: /etc/isomer/tls/tls.key
    {{- if .clients }}
    client_ca_file: /etc/isomer/tls/ca.crt
    {{- end }}
  {{- end }}
{{ include "isomer.config.telemetry" .root }}
{{- end -}}

{{- define "isomer.config.telemetry" -}}
telemetry:
  filter: {{ .Values.logs.filter | quote }}
  format: {{ .Values.logs.format }}
  {{- with .Values.tracing.endpoint }}
  otlp_endpoint: {{ . | quote }}
  {{- end }}
{{- end -}}

{{- define "isomer.config.models" -}}
models:
  home: /var/lib/isomer
  offline: {{ .Values.offline }}
  {{- with .Values.modelCache.hubEndpoint }}
  hub_endpoint: {{ . | quote }}
  {{- end }}
  {{- if .Values.models }}
  catalogue: /etc/isomer/config/catalogue.toml
  {{- end }}
{{- end -}}

{{/* The way to the pods of another server of this release, over which the client spreads its calls. dict root, suffix,
key (whether the services' key is sent) */}}
{{- define "isomer.config.client" -}}
{{- $scheme := ternary "http" "https" (eq .root.Values.tls.mode "none") }}
address: {{ printf "%s://%s:50051" $scheme (include "isomer.podsHost" .) | quote }}
{{- if ne .root.Values.tls.mode "none" }}
tls:
  # The certificates name the Service.
  server_name: {{ include "isomer.host" . }}
  ca_file: /etc/isomer/tls/ca.crt
  certificate_file: /etc/isomer/tls/tls.crt
  key_file: /etc/isomer/tls/tls.key
{{- else if .key }}
# The key is one of the services' own and travels within the cluster only; `tls.mode` encrypts it.
api_key_over_plain_text: true
{{- end }}
{{- end -}}

{{- define "isomer.config.gateway" -}}
{{ include "isomer.config.server" (dict "root" . "drainSeconds" .Values.gateway.drainSeconds "clients" .Values.tls.clientCertificates) }}
home: /var/lib/isomer
access:
  mode: {{ .Values.access.mode }}
addresses:
  allow:
    {{- range .Values.embed.encoders }}
    - {{ include "isomer.podsHost" (dict "root" $ "suffix" (printf "embed-%s" .name)) }}
    {{- end }}
{{- if or .Values.embed.encoders .Values.gateway.providers }}
providers:
  file: /etc/isomer/config/providers.toml
{{- end }}
{{- if .Values.transform.enabled }}
transform:
  {{- include "isomer.config.client" (dict "root" . "suffix" "transform") | nindent 2 }}
{{- end }}
{{- if .Values.eval.enabled }}
eval:
  {{- include "isomer.config.client" (dict "root" . "suffix" "eval") | nindent 2 }}
shared_runs: {{ ne .Values.eval.ledger.existingSecret "" }}
{{- end }}
{{- end -}}

{{/* The encoders of this release and the providers of the values, as [[provider]] tables. */}}
{{- define "isomer.providers" -}}
{{- range $entry := .Values.embed.encoders }}
{{- $encoder := include "isomer.entry" (dict "defaults" $.Values.embed.defaults "entry" $entry) | fromYaml }}
{{- $of := dict "root" $ "suffix" (printf "embed-%s" $encoder.name) }}
{{- $address := include "isomer.podsHost" $of | printf "%s://%s:50051" (ternary "grpc" "grpcs" (eq $.Values.tls.mode "none")) }}
[[provider]]
id = {{ $encoder.name | toJson }}
kind = "isomer"
address = {{ $address | toJson }}
encoders = { {{ include "isomer.toml.key" $encoder.model }} = {{ $encoder.model | toJson }} }
{{- if $encoder.pricePerMillionTokens }}
price_per_million_tokens = {{ $encoder.pricePerMillionTokens | toJson }}
{{- end }}
{{- if ne $.Values.tls.mode "none" }}
tls = { ca_file = "/etc/isomer/tls/ca.crt", certificate_file = "/etc/isomer/tls/tls.crt", key_file = "/etc/isomer/tls/tls.key", server_name = {{ include "isomer.host" $of | toJson }} }
{{- end }}
{{- end }}
{{- range .Values.gateway.providers }}
[[provider]]
{{- range $key, $value := . }}
{{ include "isomer.toml.key" $key }} = {{ include "isomer.toml.value" $value }}
{{- end }}
{{- end }}
{{- end -}}

{{/* `models` as a catalogue. */}}
{{- define "isomer.catalogue" -}}
{{- range .Values.models }}
[[model]]
{{- range $key, $value := . }}
{{ include "isomer.toml.key" $key }} = {{ include "isomer.toml.value" $value }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "isomer.config.transform" -}}
{{ include "isomer.config.server" (dict "root" . "drainSeconds" .Values.transform.drainSeconds "clients" true) }}
{{ include "isomer.config.models" . }}
encoder:
  {{- include "isomer.config.client" (dict "root" . "suffix" "" "key" (eq .Values.access.mode "required")) | nindent 2 }}
transform:
  cache_dir: /var/cache/isomer
{{- end -}}

{{- define "isomer.config.eval" -}}
{{ include "isomer.config.server" (dict "root" . "drainSeconds" .Values.eval.drainSeconds "clients" true) }}
{{ include "isomer.config.models" . }}
encoder:
  {{- include "isomer.config.client" (dict "root" . "suffix" "" "key" (eq .Values.access.mode "required")) | nindent 2 }}
transform:
  {{- include "isomer.config.client" (dict "root" . "suffix" "transform") | nindent 2 }}
eval:
  home: /var/lib/isomer
  {{- if not .Values.eval.ledger.existingSecret }}
  ledger:
    {{- /* A file of the one pod's volume: its runs go on when it is back. */}}
    url: /var/lib/isomer/runs.sqlite
  {{- end }}
  {{- if .Values.offline }}
  hub: "off"
  {{- end }}
{{- if include "isomer.eval.store" . }}
{{ include "isomer.config.store" . }}
{{- end }}
{{- if eq .Values.eval.through "workers" }}
{{ include "isomer.config.queue" . }}
{{- end }}
{{- end -}}

{{/* Whether eval-svc shares the store: with its replicas, or with workers. */}}
{{- define "isomer.eval.store" -}}
{{- if or (eq .Values.eval.through "workers") (and .Values.eval.ledger.existingSecret .Values.store.url) }}yes{{ end -}}
{{- end -}}

{{/* dict root, values (an encoder) */}}
{{- define "isomer.config.embed" -}}
{{- $encoder := .values }}
{{ include "isomer.config.server" (dict "root" .root "drainSeconds" $encoder.drainSeconds "clients" true) }}
{{ include "isomer.config.models" .root }}
embed:
  warm_up: [{{ $encoder.model | quote }}]
  device: {{ include "isomer.device" $encoder | quote }}
  precision: {{ $encoder.precision }}
  {{- if $encoder.vectorCache }}
  cache_dir: /var/cache/isomer
  {{- end }}
{{- end -}}

{{/* `cpu`, or every GPU of the pod. */}}
{{- define "isomer.device" -}}
{{- if .gpus -}}
{{- range $index := until (int .gpus) }}{{ if $index }},{{ end }}cuda:{{ $index }}{{ end -}}
{{- else -}}
cpu
{{- end -}}
{{- end -}}

{{- define "isomer.config.fleet" -}}
{{ include "isomer.config.store" . }}
{{ include "isomer.config.queue" . }}
{{- end -}}

{{- define "isomer.config.store" -}}
store:
  url: {{ .Values.store.url | quote }}
  {{- with .Values.store.endpoint }}
  endpoint: {{ . | quote }}
  {{- end }}
{{- end -}}

{{- define "isomer.config.queue" -}}
fleet:
  engine: {{ .Values.nats.url | quote }}
  name: {{ .Values.nats.name }}
  replicas: {{ .Values.nats.replicas }}
  {{- if .Values.nats.existingSecret }}
  credentials_file: /etc/isomer/nats/user.creds
  {{- end }}
  {{- if .Values.nats.caSecret }}
  ca_file: /etc/isomer/nats-ca/ca.crt
  {{- end }}
{{- end -}}

{{/* dict root, values (a pool) */}}
{{- define "isomer.config.worker" -}}
{{ include "isomer.config.telemetry" .root }}
{{ include "isomer.config.models" .root }}
{{ include "isomer.config.fleet" .root }}
embed:
  device: {{ include "isomer.device" .values | quote }}
  precision: {{ .values.precision }}
transform:
  cache_dir: /var/cache/isomer
{{- end -}}

{{- define "isomer.config.single" -}}
{{ include "isomer.config.server" (dict "root" . "drainSeconds" .Values.single.drainSeconds "clients" .Values.tls.clientCertificates) }}
{{ include "isomer.config.models" . }}
access:
  mode: {{ .Values.access.mode }}
embed:
  warm_up: {{ .Values.single.encoders | toJson }}
  device: cpu
{{- if .Values.nats.url }}
{{ include "isomer.config.fleet" . }}
{{- end }}
{{- end -}}

{{/* What the command line needs in init containers, Jobs and tests. */}}
{{- define "isomer.config.command" -}}
{{ include "isomer.config.telemetry" . }}
{{ include "isomer.config.models" . }}
access:
  mode: {{ .Values.access.mode }}
{{- end -}}

{{/* A configuration with the values' own over it, as TOML. dict made (YAML), over */}}
{{- define "isomer.config.toml" -}}
{{- $made := .made | fromYaml }}
{{- with $made.Error }}{{ fail (printf "the chart's own configuration is not YAML: %s" .) }}{{ end }}
{{- include "isomer.toml" (dict "table" (mustMergeOverwrite $made (deepCopy (.over | default dict))) "path" list) | trim }}
{{- end -}}
