{{/* What every object bears: the first two are those by which manifests/uninstall.sh finds it. */}}
{{- define "tutti.labels" -}}
app.kubernetes.io/name: tutti
app.kubernetes.io/part-of: tutti
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tutti.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What the manifests set, with what is asked of webhooks, in the release's namespace; then what the values say. */}}
{{- define "tutti.configuration" -}}
{{- $made := .Files.Get "files/tutti.yaml" | fromYaml }}
{{- $_ := set $made.leaderElection "leaseNamespace" .Release.Namespace }}
{{- if .Values.webhook.enabled }}
{{- $webhook := dict "enabled" true }}
{{- if eq .Values.webhook.certificate "SelfSigned" }}
{{- $host := printf "tutti.%s.svc" .Release.Namespace }}
{{- $_ := set $webhook "selfSigned" (dict "secretNamespace" .Release.Namespace "hosts" (list $host)) }}
{{- end }}
{{- $_ := set $made "webhook" $webhook }}
{{- end }}
{{- if .Values.webView.enabled }}
{{- $_ := set $made "ui" dict }}
{{- end }}
{{- mergeOverwrite $made (deepCopy .Values.configuration) | toYaml }}
{{- end }}
