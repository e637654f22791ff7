{{- define "berth.labels" -}}
app.kubernetes.io/name: {{ .Values.name | quote }}
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
{{- define "berth.schedulerNames" -}}
{{- $own := include "berth.schedulerName" . }}
{{- range .Values.config.profiles }}{{ .schedulerName | default $own | quote }}, {{ else }}{{ $own | quote }}, {{ end }}
{{- end }}
{{- define "berth.refuseUnusedName" -}}
{{- with .Values.schedulerName }}
{{- $quoted := quote . }}
{{- $names := include "berth.schedulerNames" $ | trimSuffix ", " }}
{{- if contains $quoted $names | not }}
{{- printf "schedulerName is %s, and no profile of config.profiles is called that; these have the names %s" . $names | fail }}
{{- end }}
{{- end }}
{{- end }}
{{- define "berth.pageLabels" -}}
app.kubernetes.io/name: {{ .Values.name }}-page
app.kubernetes.io/component: page
{{- end }}
{{- define "berth.pageMetaLabels" -}}
{{ include "berth.pageLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "berth.pageLease" -}}
{{ include "berth.lease" . }}{{ if .Values.shards }}-shard-0{{ end }}
{{- end }}
{{- define "berth.refusePageWithoutScheduler" -}}
{{- if eq .Values.mode "instead" }}
{{- if eq .Release.Namespace "kube-system" | not }}
{{- fail "the page finds the scheduler's pod in the namespace of its lease, which is kube-system with mode=instead: install the chart there, or set ui.enabled=false" }}
{{- end }}
{{- end }}
{{- end }}
{{- define "berth.observerLabels" -}}
app.kubernetes.io/name: {{ .Values.name }}-observer
app.kubernetes.io/component: observer
{{- end }}
{{- define "berth.observerMetaLabels" -}}
{{ include "berth.observerLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
