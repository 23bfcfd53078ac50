{{/* API keys: where each is, how one is made, and how it is registered. */}}

{{/* The entry of a Secret that holds a key. dict root, name */}}
{{- define "isomer.keyRef" -}}
{{- $key := get .root.Values.access.keys .name }}
{{- if not $key }}{{ fail (printf "access.keys.%s is missing: the chart uses it" .name) }}{{ end }}
{{- if $key.existingSecret -}}
name: {{ $key.existingSecret }}
key: {{ $key.secretKey | default "key" }}
{{- else -}}
name: {{ include "isomer.fullname" .root }}-keys
key: {{ .name }}
{{- end -}}
{{- end -}}

{{/* A new key in the form that gateway/access/src/key.rs reads: a public id, 256 random bits, and a checksum of the
first four bytes of SHA-256 in base 62. */}}
{{- define "isomer.key.new" -}}
{{- $digits := "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" }}
{{- $body := printf "iso_%s_%s" (randAlphaNum 12 | lower) (randAlphaNum 43) }}
{{- $number := int64 (printf "0x%s" (substr 0 8 (sha256sum $body))) }}
{{- $sum := "" }}
{{- range until 6 }}
{{- $digit := int (mod $number 62) }}
{{- $sum = printf "%s%s" (substr $digit (int (add $digit 1)) $digits) $sum }}
{{- $number = div $number 62 }}
{{- end }}
{{- printf "%s%s" $body $sum }}
{{- end -}}

{{/* Init containers that register every key; one that is registered already stays as it is. dict root, mounts */}}
{{- define "isomer.keys.init" -}}
{{- range $name, $key := .root.Values.access.keys }}
- name: key-{{ $name }}
  image: {{ include "isomer.image" (dict "root" $.root "target" "isomer") }}
  imagePullPolicy: {{ $.root.Values.image.pullPolicy }}
  command: [/usr/bin/isomer]
  args:
    - --config=/etc/isomer/config/command.toml
    - keys
    - import
    - --name={{ $name }}
    - --scope={{ join "," $key.scopes }}
    - --key-file=/etc/isomer/keys/{{ $name }}
  env:
    {{- include "isomer.env" (dict "root" $.root "database" true) | nindent 4 }}
  volumeMounts:
    {{- include "isomer.mounts" (dict "root" $.root) | nindent 4 }}
    - name: keys
      mountPath: /etc/isomer/keys
      readOnly: true
    {{- with $.mounts }}
    {{- . | nindent 4 }}
    {{- end }}
  resources:
    {{- toYaml $.root.Values.setup.resources | nindent 4 }}
  securityContext:
    {{- include "isomer.containerSecurity" . | nindent 4 }}
{{- end }}
{{- end -}}

{{- define "isomer.keys.volumes" -}}
{{- if eq .Values.access.mode "required" }}
- name: keys
  projected:
    defaultMode: 0440
    sources:
      {{- range $name, $key := .Values.access.keys }}
      {{- $ref := include "isomer.keyRef" (dict "root" $ "name" $name) | fromYaml }}
      - secret:
          name: {{ $ref.name }}
          items:
            - key: {{ $ref.key }}
              path: {{ $name }}
      {{- end }}
{{- end }}
{{- end -}}
