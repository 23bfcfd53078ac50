{{/* Scales a pool of workers by what is queued. KEDA's own JetStream trigger wants the name of one consumer; a fleet has
one for each lane, and its name has the digest of model and version. So either Prometheus adds up the consumers of the
pool's kinds of work (metrics of prometheus-nats-exporter), or NATS says how many units the stream holds in all: a
unit stays there until it is done. */}}
{{- define "isomer.scaledObject" -}}
{{- $keda := .values.keda }}
{{- $values := .root.Values }}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  {{- include "isomer.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "isomer.fullname" .root }}-{{ .suffix }}
  minReplicaCount: {{ $keda.minReplicas }}
  maxReplicaCount: {{ $keda.maxReplicas }}
  pollingInterval: 15
  cooldownPeriod: {{ $keda.cooldownSeconds }}
  triggers:
    {{- if $keda.prometheusUrl }}
    {{- $kinds := join "|" (keys .values.lanes | sortAlpha) }}
    {{- $consumers := printf "{stream_name=%q,consumer_name=~\"(%s)-.*\"}" (printf "%s-work" $values.nats.name) $kinds }}
    - type: prometheus
      metadata:
        serverAddress: {{ $keda.prometheusUrl | quote }}
        query: {{ printf "sum(max by (consumer_name) (%s_consumer_num_pending%s)) + sum(max by (consumer_name) (%s_consumer_num_ack_pending%s))" $keda.prometheusMetrics $consumers $keda.prometheusMetrics $consumers | quote }}
        threshold: {{ $keda.unitsPerReplica | quote }}
    {{- else }}
    - type: metrics-api
      metadata:
        url: {{ printf "%s/jsz?accounts=true&streams=true" (required "workers: keda needs nats.monitoringUrl, or keda.prometheusUrl" $values.nats.monitoringUrl) | quote }}
        format: json
        valueLocation: {{ printf "account_details.#.stream_detail|@flatten|#(name==\"%s-work\").state.messages" $values.nats.name | quote }}
        targetValue: {{ $keda.unitsPerReplica | quote }}
    {{- end }}
{{- end -}}
