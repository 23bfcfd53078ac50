{{/* The Deployment and the Service of a server.

dict root, component, suffix (of names), labels (that tell pods of one component apart), values (of the component),
target (image), command (list), config (suffix of the ConfigMap), toml (its content, for the checksum), tls (component
whose certificate it has), init, volumes, mounts, env (YAML lists), port (whether it serves gRPC), metricsPort (of
/metrics and /healthz alone), strategy */}}

{{- define "isomer.deployment" -}}
{{- $values := .values }}
{{- $pod := $values.pod | default dict }}
{{- $keda := and $values.keda $values.keda.enabled }}
{{- $hpa := and $values.autoscaling $values.autoscaling.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "isomer.metadata" . | nindent 2 }}
spec:
  {{- if not (or $keda $hpa) }}
  replicas: {{ $values.replicas }}
  {{- end }}
  revisionHistoryLimit: 3
  strategy:
    {{- if eq (.strategy | default "") "Recreate" }}
    # The volume is for one pod at a time.
    type: Recreate
    {{- else }}
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
    {{- end }}
  selector:
    matchLabels:
      {{- include "isomer.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "isomer.selector" . | nindent 8 }}
        {{- with $pod.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        checksum/config: {{ sha256sum .toml }}
        {{- with $pod.annotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "isomer.scheduling" (dict "root" .root "pod" $pod) | nindent 6 }}
      {{- include "isomer.spread" (dict "root" .root "component" .component "labels" .labels "pod" $pod) | nindent 6 }}
      terminationGracePeriodSeconds: {{ include "isomer.grace" (dict "drainSeconds" $values.drainSeconds) }}
      {{- with .init | trim }}
      initContainers:
        {{- . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "isomer.image" (dict "root" .root "target" .target) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [{{ first .command }}]
          args:
            {{- rest .command | toYaml | nindent 12 }}
          env:
            {{- .env | trim | nindent 12 }}
          {{- if .port }}
          ports:
            - name: grpc
              containerPort: 50051
          {{- include "isomer.probes" (dict "root" .root "probe" .probe "clients" (or (ne .tls "gateway") .root.Values.tls.clientCertificates) "startupSeconds" $values.startupSeconds) | nindent 10 }}
          {{- include "isomer.preStop" . | nindent 10 }}
          {{- end }}
          {{- with .metricsPort }}
          ports:
            - name: metrics
              containerPort: {{ . }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: metrics
            periodSeconds: 10
            timeoutSeconds: 6
            failureThreshold: 6
          {{- end }}
          volumeMounts:
            {{- include "isomer.mounts" (dict "root" .root "tls" .tls "pod" $pod) | trim | nindent 12 }}
            {{- with .mounts | default "" | trim }}
            {{- . | nindent 12 }}
            {{- end }}
          {{- include "isomer.resources" $values | nindent 10 }}
          securityContext:
            {{- include "isomer.containerSecurity" . | nindent 12 }}
      volumes:
        {{- include "isomer.volumes" (dict "root" .root "config" .config "tls" .tls "pod" $pod) | trim | nindent 8 }}
        {{- with .volumes | default "" | trim }}
        {{- . | nindent 8 }}
        {{- end }}
{{- end -}}

{{/* A Service within the cluster. */}}
{{- define "isomer.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "isomer.metadata" . | nindent 2 }}
spec:
  type: ClusterIP
  selector:
    {{- include "isomer.selector" . | nindent 4 }}
  ports:
    - name: grpc
      port: 50051
      targetPort: grpc
      {{- if eq .root.Values.tls.mode "none" }}
      appProtocol: kubernetes.io/h2c
      {{- end }}
{{- end -}}

{{/* All its ready pods by one name, for clients of this release: gRPC sends every call of a client over one connection,
so a Service's one address would give all of them to one pod. */}}
{{- define "isomer.headless" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "isomer.metadata" (mustMerge (dict "root" .root "suffix" (printf "%s-pods" .suffix)) (omit . "root" "suffix")) | nindent 2 }}
spec:
  type: ClusterIP
  clusterIP: None
  selector:
    {{- include "isomer.selector" . | nindent 4 }}
  ports:
    - name: grpc
      port: 50051
      targetPort: grpc
      {{- if eq .root.Values.tls.mode "none" }}
      appProtocol: kubernetes.io/h2c
      {{- end }}
{{- end -}}

{{/* dict as of isomer.deployment, and data (file → content) */}}
{{- define "isomer.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "isomer.metadata" . | nindent 2 }}
data:
  {{- range $file, $content := .data }}
  {{ $file }}: |
    {{- $content | trim | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Files of a server's ConfigMap: its own configuration, and that of `isomer` in its init containers. */}}
{{- define "isomer.files" -}}
{{- $data := dict "command.toml" (include "isomer.config.toml" (dict "made" (include "isomer.config.command" .root))) }}
{{- with .toml }}
{{- $_ := set $data "config.toml" . }}
{{- end }}
{{- if .root.Values.models }}
{{- $_ := set $data "catalogue.toml" (include "isomer.catalogue" .root) }}
{{- end }}
{{- if .providers }}
{{- $_ := set $data "providers.toml" .providers }}
{{- end }}
{{- $data | toYaml }}
{{- end -}}

{{- define "isomer.hpa" -}}
{{- $scaling := .values.autoscaling }}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "isomer.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "isomer.fullname" .root }}-{{ .suffix }}
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  metrics:
    {{- if $scaling.cpu }}
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ $scaling.cpu }}
    {{- end }}
    {{- range $scaling.metrics }}
    # By an adapter that serves Prometheus' metrics to the autoscaler.
    - type: Pods
      pods:
        metric:
          name: {{ .name }}
        target:
          type: AverageValue
          averageValue: {{ .averageValue | quote }}
    {{- end }}
  behavior:
    scaleDown:
      # A new pod loads its model before it helps: do not give up one lightly.
      stabilizationWindowSeconds: 300
{{- end -}}

{{- define "isomer.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "isomer.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .values.disruption.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "isomer.selector" . | nindent 6 }}
{{- end -}}

{{/* Everything of a server: ConfigMap, Deployment, Service, autoscaler, disruption budget. */}}
{{- define "isomer.server" -}}
{{- $data := include "isomer.files" . | fromYaml }}
{{- $all := mustMerge (dict "toml" ($data | toJson)) (omit . "root" "toml") }}
{{- $_ := set $all "root" .root }}
{{ include "isomer.configMap" (mustMerge (dict "data" $data "root" .root) (omit $all "root")) }}
---
{{ include "isomer.deployment" $all }}
{{- if and .port (ne (toString .service) "false") }}
---
{{ include "isomer.service" $all }}
{{- end }}
{{- if and .port (ne .component "single") }}
---
{{ include "isomer.headless" $all }}
{{- end }}
{{- if and .values.autoscaling .values.autoscaling.enabled }}
---
{{ include "isomer.hpa" $all }}
{{- end }}
{{- if and .values.disruption .values.disruption.enabled }}
---
{{ include "isomer.pdb" $all }}
{{- end }}
{{- end -}}
