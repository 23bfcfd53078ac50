{{/* Maps as TOML. Helm's own toToml writes 30 as 30.0, which no whole number of a configuration is. */}}

{{- define "isomer.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ . | toJson }}{{ end -}}
{{- end -}}

{{- define "isomer.toml.value" -}}
{{- if kindIs "map" . -}}
{ {{- $first := true }}{{ range $key, $value := . }}{{ if not $first }},{{ end }} {{ include "isomer.toml.key" $key }} = {{ include "isomer.toml.value" $value }}{{ $first = false }}{{ end }} }
{{- else if kindIs "slice" . -}}
[{{ range $index, $value := . }}{{ if $index }}, {{ end }}{{ include "isomer.toml.value" $value }}{{ end }}]
{{- else -}}
{{ . | toJson }}
{{- end -}}
{{- end -}}

{{/* dict table, path */}}
{{- define "isomer.toml" -}}
{{- $path := .path }}
{{- range $key, $value := .table }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ include "isomer.toml.key" $key }} = {{ include "isomer.toml.value" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .table }}
{{- if kindIs "map" $value }}
{{- $inner := append $path (include "isomer.toml.key" $key) }}
[{{ join "." $inner }}]
{{- include "isomer.toml" (dict "table" $value "path" $inner) }}
{{- end }}
{{- end }}
{{- end -}}
