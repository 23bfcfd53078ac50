{{/* Names and labels. */}}

{{- define "isomer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of all names. Suffixes need room: names of Services end at 63 characters. */}}
{{- define "isomer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* dict root, component, labels (further ones that tell pods of one component apart) */}}
{{- define "isomer.selector" -}}
app.kubernetes.io/name: {{ include "isomer.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- range $key, $value := .labels }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "isomer.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "isomer.selector" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* dict root, component, labels, suffix, annotations, moreLabels */}}
{{- define "isomer.metadata" -}}
{{- $name := printf "%s%s" (include "isomer.fullname" .root) (ternary (printf "-%s" .suffix) "" (ne (.suffix | default "") "")) -}}
{{- if gt (len $name) 63 }}
{{- fail (printf "the name %s has more than 63 characters: choose a shorter fullnameOverride, or a shorter name of the encoder, pool or check" $name) }}
{{- end -}}
name: {{ $name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "isomer.labels" . | nindent 2 }}
  {{- with .moreLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* dict root, target */}}
{{- define "isomer.image" -}}
{{- $image := .root.Values.image -}}
{{- $base := printf "%s/%s/%s" $image.registry $image.repository .target -}}
{{- with get $image.digests .target -}}
{{- printf "%s@%s" $base . -}}
{{- else -}}
{{- printf "%s:%s" $base (default $.root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "isomer.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "isomer.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The name of a Service within the cluster. dict root, suffix */}}
{{- define "isomer.host" -}}
{{ include "isomer.fullname" .root }}{{ with .suffix }}-{{ . }}{{ end }}.{{ .root.Release.Namespace }}.svc
{{- end -}}

{{/* The name of all ready pods of a component: of its headless Service. */}}
{{- define "isomer.podsHost" -}}
{{ include "isomer.host" (dict "root" .root "suffix" (printf "%s-pods" (.suffix | default "gateway"))) }}
{{- end -}}

{{- define "isomer.url" -}}
{{ ternary "http" "https" (eq .root.Values.tls.mode "none") }}://{{ include "isomer.host" . }}:50051
{{- end -}}

{{/* `services` or `single`: without a mode, a database decides. */}}
{{- define "isomer.mode" -}}
{{ .Values.mode | default (ternary "services" "single" (ne .Values.database.existingSecret "")) }}
{{- end -}}

{{- define "isomer.isServices" -}}
{{- if eq (include "isomer.mode" .) "services" }}yes{{ end -}}
{{- end -}}

{{/* An entry of a list with the defaults below it, as YAML. dict defaults, entry */}}
{{- define "isomer.entry" -}}
{{ mustMergeOverwrite (deepCopy .defaults) (deepCopy .entry) | toYaml }}
{{- end -}}
