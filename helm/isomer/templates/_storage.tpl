{{/* Claims and other volumes. */}}

{{/* What a pod keeps for itself. dict root, size, name */}}
{{- define "isomer.cache.volume" -}}
- name: {{ .name | default "cache" }}
  {{- if .size }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .root.Values.modelCache.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ .size }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end -}}

{{- define "isomer.cache.mounts" -}}
- name: models
  mountPath: /var/lib/isomer
- name: cache
  mountPath: /var/cache/isomer
{{- end -}}

{{- define "isomer.fleet.volumes" -}}
{{- if .Values.nats.existingSecret }}
- name: nats
  secret:
    secretName: {{ .Values.nats.existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .Values.nats.secretKey }}
        path: user.creds
{{- end }}
{{- if .Values.nats.caSecret }}
- name: nats-ca
  secret:
    secretName: {{ .Values.nats.caSecret }}
    items:
      - key: ca.crt
        path: ca.crt
{{- end }}
{{- if .Values.store.existingClaim }}
- name: store
  persistentVolumeClaim:
    claimName: {{ .Values.store.existingClaim }}
{{- end }}
{{- end -}}

{{- define "isomer.fleet.mounts" -}}
{{- if .Values.nats.existingSecret }}
- name: nats
  mountPath: /etc/isomer/nats
  readOnly: true
{{- end }}
{{- if .Values.nats.caSecret }}
- name: nats-ca
  mountPath: /etc/isomer/nats-ca
  readOnly: true
{{- end }}
{{- if .Values.store.existingClaim }}
- name: store
  mountPath: /store
{{- end }}
{{- end -}}

{{/* dict root, volume, suffix */}}
{{- define "isomer.claim.volume" -}}
- name: data
  persistentVolumeClaim:
    claimName: {{ .volume.existingClaim | default (printf "%s-%s" (include "isomer.fullname" .root) .suffix) }}
{{- end -}}

{{/* dict root, component, volume, suffix, mode */}}
{{- define "isomer.claim" -}}
{{- if not .volume.existingClaim }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  {{- include "isomer.metadata" (mustMerge (dict "root" .root "annotations" (ternary (dict "helm.sh/resource-policy" "keep") dict .volume.keep)) (omit . "root")) | nindent 2 }}
spec:
  accessModes: [{{ .mode }}]
  {{- with .volume.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .volume.size }}
{{- end }}
{{- end -}}
