{{/* Network policies: everything is denied, then each pair that talks is named. */}}

{{/* dict root, component */}}
{{- define "isomer.peer" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ include "isomer.name" .root }}
      app.kubernetes.io/instance: {{ .root.Release.Name }}
      app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* dict root, component, from (components), fromPeers (peers), to (components), out (list of dict peers, ports), port (in place of the
server's) */}}
{{- define "isomer.networkPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "isomer.metadata" (dict "root" .root "component" .component "suffix" .component) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "isomer.selector" (dict "root" .root "component" .component) | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- if or .from .fromPeers }}
  ingress:
    - ports: [{port: {{ .port | default 50051 }}, protocol: TCP}]
      from:
        {{- range .from }}
        {{- include "isomer.peer" (dict "root" $.root "component" .) | nindent 8 }}
        {{- end }}
        {{- with .fromPeers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  {{- end }}
  {{- if or .to .out }}
  egress:
    {{- if .to }}
    - ports: [{port: 50051, protocol: TCP}]
      to:
        {{- range .to }}
        {{- include "isomer.peer" (dict "root" $.root "component" .) | nindent 8 }}
        {{- end }}
    {{- end }}
    {{- range .out }}
    - ports:
        {{- range .ports }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
      {{- with .peers }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "isomer.network.models" -}}
{{- if not .Values.offline }}
- {{ dict "peers" .Values.modelCache.peers "ports" (list .Values.modelCache.port) | toJson }}
{{- end }}
{{- end -}}

{{- define "isomer.network.fleet" -}}
{{- $nats := list .Values.nats.port }}
- {{ dict "peers" .Values.nats.peers "ports" $nats | toJson }}
{{- include "isomer.network.store" . }}
{{- end -}}

{{- define "isomer.network.store" -}}
{{- if not .Values.store.existingClaim }}
- {{ dict "peers" .Values.store.peers "ports" (list .Values.store.port) | toJson }}
{{- end }}
{{- end -}}
