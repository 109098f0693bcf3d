{{/* The name of everything of a release. */}}
{{- define "probity.name" -}}
{{ printf "%s-probity" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "probity.labels" -}}
app.kubernetes.io/name: probity
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What selects pods of a part: call with (list . "prober"). */}}
{{- define "probity.selector" -}}
app.kubernetes.io/name: probity
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "probity.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* Least privilege, of the pod and of its container. */}}
{{- define "probity.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "probity.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The flags that all members share, as lines of TOML. */}}
{{- define "probity.member" -}}
data = "/var/lib/probity"
certs = "/etc/probity"
node-cert = "/etc/probity/node.crt"
node-key = "/etc/probity/node.key"
cluster-label = {{ .Values.clusterLabel | quote }}
cluster-listen = "0.0.0.0:7946"
join = [{{ printf "%s-seeds:7946" (include "probity.name" .) | quote }}]
admin-listen = "0.0.0.0:9090"
log-format = "json"
{{- if .Values.dns }}
dns = [{{ range $i, $d := .Values.dns }}{{ if $i }}, {{ end }}{{ $d | quote }}{{ end }}]
{{- end }}
{{- if .Values.providers }}
providers = "/etc/probity-conf/providers.toml"
{{- end }}
{{- end }}

{{/* The container's environment: where others reach its gossip. */}}
{{- define "probity.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end }}

{{/* Of the secret with all members' papers, a container sees the fleet's and its own pair. */}}
{{- define "probity.papers" -}}
- {name: papers, mountPath: /etc/probity/ca.crt, subPath: ca.crt, readOnly: true}
- {name: papers, mountPath: /etc/probity/cluster.key, subPath: cluster.key, readOnly: true}
- {name: papers, mountPath: /etc/probity/node.crt, subPathExpr: $(POD_NAME).crt, readOnly: true}
- {name: papers, mountPath: /etc/probity/node.key, subPathExpr: $(POD_NAME).key, readOnly: true}
{{- end }}

{{- define "probity.probes" -}}
startupProbe:
  exec: {command: [/usr/local/bin/probity, health]}
  periodSeconds: 3
  timeoutSeconds: 6
  failureThreshold: 40
livenessProbe:
  exec: {command: [/usr/local/bin/probity, health]}
  periodSeconds: 15
  timeoutSeconds: 6
  failureThreshold: 4
readinessProbe:
  exec: {command: [/usr/local/bin/probity, health, --ready]}
  periodSeconds: 5
  timeoutSeconds: 6
{{- end }}
