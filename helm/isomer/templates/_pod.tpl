{{/* What the pods have in common. */}}

{{- define "isomer.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "isomer.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Where pods run. dict root, component, labels, pod */}}
{{- define "isomer.scheduling" -}}
{{- $pod := .pod | default dict }}
serviceAccountName: {{ include "isomer.serviceAccount" .root }}
automountServiceAccountToken: false
# Variables of Services begin with the Service's name: ISOMER_… would be taken for ours.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $pod.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $pod.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "isomer.podSecurity" . | nindent 2 }}
{{- end -}}

{{/* Over nodes and zones, where that can be had. dict as of isomer.scheduling */}}
{{- define "isomer.spread" -}}
{{- $pod := .pod | default dict }}
{{- if hasKey $pod "topologySpreadConstraints" }}
{{- with $pod.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "isomer.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Variables of a container. dict root, secretEnv, pod, and whether it gets: hub (the hub's token), store
(credentials of the bucket), key (the services' key as the encoder's), database, ledger (eval-svc's runs) */}}
{{- define "isomer.env" -}}
{{- $values := .root.Values }}
# Nothing but /tmp and the volumes can be written.
- name: HOME
  value: /tmp
{{- if .database }}
{{- if $values.database.existingSecret }}
- name: ISOMER_DATABASE__URL
  valueFrom:
    secretKeyRef:
      name: {{ $values.database.existingSecret }}
      key: {{ $values.database.secretKey }}
{{- end }}
{{- end }}
{{- if and .ledger $values.eval.ledger.existingSecret }}
- name: ISOMER_EVAL__LEDGER__URL
  valueFrom:
    secretKeyRef:
      name: {{ $values.eval.ledger.existingSecret }}
      key: {{ $values.eval.ledger.secretKey }}
{{- end }}
{{- if and .key (eq $values.access.mode "required") }}
- name: ISOMER_ENCODER__API_KEY
  valueFrom:
    secretKeyRef:
      {{- include "isomer.keyRef" (dict "root" .root "name" "services") | nindent 6 }}
{{- end }}
{{- if and .hub $values.modelCache.tokenSecret (not $values.offline) }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ $values.modelCache.tokenSecret }}
      key: token
{{- end }}
{{- if .store }}
{{- range $name, $value := $values.store.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $key := $values.store.secretEnv }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ required "store.secretEnv needs store.existingSecret" $values.store.existingSecret }}
      key: {{ $key }}
{{- end }}
{{- end }}
{{- range .secretEnv }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- range (.pod | default dict).env }}
- name: {{ .name }}
  value: {{ .value | quote }}
{{- end }}
{{- end -}}

{{/* Startup, liveness and readiness of a server. dict root, probe (command), clients (whether it asks for certificates),
startupSeconds. The kubelet has no certificate to show: where one is asked for, the server's own binary asks, with
the same configuration. */}}
{{- define "isomer.probes" -}}
{{- $probes := dict "startup" "ready" "liveness" "live" "readiness" "ready" }}
{{- range $name := list "startup" "liveness" "readiness" }}
{{ $name }}Probe:
  {{- if or (eq $.root.Values.tls.mode "none") (not $.clients) }}
  httpGet:
    path: {{ ternary "/healthz" "/readyz" (eq $name "liveness") }}
    port: grpc
    {{- if ne $.root.Values.tls.mode "none" }}
    scheme: HTTPS
    {{- end }}
  {{- else }}
  exec:
    command:
      {{- toYaml $.probe | nindent 6 }}
      - --probe={{ get $probes $name }}
  {{- end }}
  periodSeconds: {{ ternary 2 5 (eq $name "startup") }}
  timeoutSeconds: 6
  {{- if eq $name "startup" }}
  failureThreshold: {{ div (add (int $.startupSeconds) 1) 2 }}
  {{- else }}
  failureThreshold: {{ ternary 6 2 (eq $name "liveness") }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Requests that are on their way when a pod leaves its Service still come: it listens on for a moment. */}}
{{- define "isomer.preStop" -}}
lifecycle:
  preStop:
    sleep:
      seconds: 5
{{- end -}}

{{/* Seconds from the signal to the kill. dict drainSeconds */}}
{{- define "isomer.grace" -}}
{{ add 5 (int .drainSeconds) 10 }}
{{- end -}}

{{- define "isomer.resources" -}}
{{- $resources := deepCopy (.resources | default dict) }}
{{- if .gpus }}
{{- $limits := mustMergeOverwrite (dict) ($resources.limits | default dict) (dict .gpuResource (int .gpus)) }}
{{- $_ := set $resources "limits" $limits }}
{{- end }}
resources:
  {{- toYaml $resources | nindent 2 }}
{{- end -}}

{{/* Volumes and mounts of a pod. dict root, config (suffix of its ConfigMap), tls (the component whose certificate it
has), pod */}}
{{- define "isomer.volumes" -}}
- name: config
  configMap:
    name: {{ include "isomer.fullname" .root }}-{{ .config }}
- name: tmp
  emptyDir: {}
{{- if and .tls (ne .root.Values.tls.mode "none") }}
- name: tls
  secret:
    secretName: {{ include "isomer.tlsSecret" (dict "root" .root "component" .tls) }}
    defaultMode: 0440
{{- end }}
{{- range (.pod | default dict).extraVolumes }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{- define "isomer.mounts" -}}
- name: config
  mountPath: /etc/isomer/config
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if and .tls (ne .root.Values.tls.mode "none") }}
- name: tls
  mountPath: /etc/isomer/tls
  readOnly: true
{{- end }}
{{- range (.pod | default dict).extraVolumeMounts }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{- define "isomer.tlsSecret" -}}
{{- if eq .root.Values.tls.mode "secrets" -}}
{{- required (printf "tls.mode `secrets` needs tls.secrets.%s" .component) (get .root.Values.tls.secrets .component) -}}
{{- else -}}
{{ include "isomer.fullname" .root }}-{{ .component }}-tls
{{- end -}}
{{- end -}}

{{/* Model files: the volume, and the init container that makes them present. dict root, pull (ids), pod, volume */}}
{{- define "isomer.models.volume" -}}
{{- $cache := .root.Values.modelCache }}
- name: models
  {{- if eq $cache.type "shared" }}
  persistentVolumeClaim:
    claimName: {{ $cache.existingClaim | default (printf "%s-models" (include "isomer.fullname" .root)) }}
  {{- else if eq $cache.type "perPod" }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $cache.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ $cache.size }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ $cache.size }}
  {{- end }}
{{- end -}}

{{- define "isomer.models.init" -}}
{{- if .pull }}
- name: models
  image: {{ include "isomer.image" (dict "root" .root "target" "isomer") }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [/usr/bin/isomer]
  args:
    - --config=/etc/isomer/config/command.toml
    - models
    {{- if .root.Values.offline }}
    # Nothing is fetched: a model that is missing or damaged ends the pod's start, by name.
    - verify
    {{- else }}
    - pull
    {{- end }}
    {{- range .pull }}
    - {{ . | quote }}
    {{- end }}
  env:
    {{- include "isomer.env" (dict "root" .root "hub" true "pod" .pod) | nindent 4 }}
  volumeMounts:
    {{- include "isomer.mounts" (dict "root" .root) | nindent 4 }}
    - name: {{ .volume | default "models" }}
      mountPath: /var/lib/isomer
  resources:
    {{- toYaml .root.Values.modelCache.resources | nindent 4 }}
  securityContext:
    {{- include "isomer.containerSecurity" . | nindent 4 }}
{{- end }}
{{- end -}}

{{/* An init container that waits for others. dict root, for (addresses), config, tls, database */}}
{{- define "isomer.wait" -}}
- name: wait
  image: {{ include "isomer.image" (dict "root" .root "target" "isomer") }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [/usr/bin/isomer]
  args:
    - --config=/etc/isomer/config/command.toml
    - wait
    - --timeout={{ .root.Values.setup.waitSeconds }}
    {{- include "isomer.tls.args" .root | nindent 4 }}
    {{- range .for }}
    - {{ . | quote }}
    {{- end }}
  env:
    {{- include "isomer.env" (dict "root" .root "database" .database) | nindent 4 }}
  volumeMounts:
    {{- include "isomer.mounts" (dict "root" .root "tls" .tls) | nindent 4 }}
  resources:
    {{- toYaml .root.Values.setup.resources | nindent 4 }}
  securityContext:
    {{- include "isomer.containerSecurity" . | nindent 4 }}
{{- end -}}

{{/* What the command line needs to reach the gateway. */}}
{{- define "isomer.client.args" -}}
- --server={{ include "isomer.url" (dict "root" . "suffix" "") }}
{{- if and (eq .Values.tls.mode "none") (eq .Values.access.mode "required") }}
# The key travels within the cluster only; `tls.mode` encrypts it.
- --api-key-over-plain-text
{{- end }}
{{- include "isomer.tls.args" . }}
{{- end -}}

{{- define "isomer.tls.args" -}}
{{- if ne .Values.tls.mode "none" }}
- --ca-file=/etc/isomer/tls/ca.crt
- --certificate-file=/etc/isomer/tls/tls.crt
- --certificate-key-file=/etc/isomer/tls/tls.key
{{- end }}
{{- end -}}
