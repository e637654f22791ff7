{{- define "berth.labels" -}}
app.kubernetes.io/name: {{ .Values.name }}
app.kubernetes.io/component: scheduler
{{- end }}
{{- define "berth.metaLabels" -}}
{{ include "berth.labels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "berth.schedulerName" -}}
{{- if .Values.schedulerName }}{{ .Values.schedulerName }}{{ else if eq .Values.mode "instead" }}default-scheduler{{ else }}{{ .Values.name }}{{ end }}
{{- end }}
{{- define "berth.lease" -}}
{{- if eq .Values.mode "instead" }}kube-scheduler{{ else }}{{ .Values.name }}{{ end }}
{{- end }}
{{- define "berth.leaseNamespace" -}}
{{- if eq .Values.mode "instead" }}kube-system{{ else }}{{ .Release.Namespace }}{{ end }}
{{- end }}
