{{- /* The labels by which Services and the Deployment find pods. */ -}}
{{- define "kuota.selected" -}}
app.kubernetes.io/component: controller
app.kubernetes.io/name: kueue
control-plane: controller-manager
{{- end }}

{{- /* The image, by tag or by digest. */ -}}
{{- define "kuota.image" -}}
{{- $image := .Values.controllerManager.manager.image -}}
{{- $tag := $image.tag | default .Chart.AppVersion -}}
{{- $image.repository }}{{ contains ":" $tag | ternary "@" ":" }}{{ $tag -}}
{{- end }}

{{- /* Where the utilization of GPUs is read, and when one is idle. */ -}}
{{- define "kuota.deviceArguments" -}}
{{- with .Values.deviceMetrics.dcgmExporter }}
- --dcgm-exporter={{ . }}
{{- end }}
{{- with .Values.deviceMetrics.prometheus }}
- --dcgm-prometheus={{ . }}
- {{ printf "--dcgm-selector=%s" $.Values.deviceMetrics.prometheusSelector | quote }}
{{- end }}
{{- if or .Values.deviceMetrics.dcgmExporter .Values.deviceMetrics.prometheus }}
- --idle-below={{ .Values.deviceMetrics.idleBelowPercent }}
- --idle-after={{ int .Values.deviceMetrics.idleAfterSeconds }}
{{- end }}
{{- end }}
