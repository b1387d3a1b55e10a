{{- define "berth.name" -}}
{{- if contains "berth" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-berth" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "berth.account" -}}
{{- .Values.serviceAccount.name | default (include "berth.name" .) }}
{{- end }}

{{- define "berth.secret" -}}
{{- .Values.secret.existing | default (printf "%s-secrets" (include "berth.name" .)) }}
{{- end }}

{{- define "berth.host" -}}
{{- (urlParse .Values.publicUrl).host }}
{{- end }}

{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* What a Deployment selects by. `app` is how tenants' NetworkPolicies name these pods. */}}
{{- define "berth.selector" -}}
app: {{ .process }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .process }}
{{- end }}

{{- define "berth.image" -}}
{{- $image := index .root.Values.image .kind -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Pod-level fields that every process shares. */}}
{{- define "berth.pod" -}}
# a Service called berth would be told to pods as BERTH_PORT
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Over nodes, and as topologySpreadConstraints say: each of them without a selector gets its own. */}}
{{- define "berth.spread" -}}
{{- $select := include "berth.selector" . | fromYaml }}
{{- with .root.Values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
  - {{- merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $select)) | toYaml | nindent 4 }}
{{- end }}
{{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "berth.selector" . | nindent 14 }}
{{- end }}

{{- define "berth.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "berth.mounts" -}}
volumeMounts:
  - {name: scratch, mountPath: /tmp, subPath: tmp}
  - {name: scratch, mountPath: /var/lib/berth, subPath: var}
{{- if include "berth.ca" . }}
  - {name: ca, mountPath: /etc/berth/ca, readOnly: true}
{{- end }}
{{- end }}

{{/* Whether there is an authority of the operator's own; an earlier chart, whose values are kept, knew none. */}}
{{- define "berth.ca" -}}
{{- if and (.Values.ca).configMap (.Values.ca).secret }}{{ fail "ca: either configMap or secret, not both" }}{{ end }}
{{- if or (.Values.ca).configMap (.Values.ca).secret }}yes{{ end }}
{{- end }}

{{- define "berth.volumes" -}}
volumes:
  - name: scratch
    emptyDir: {sizeLimit: 1Gi}
{{- if include "berth.ca" . }}
  - name: ca
    {{- if .Values.ca.secret }}
    secret: {secretName: {{ .Values.ca.secret }}, items: [{key: {{ .Values.ca.key | quote }}, path: ca.crt}]}
    {{- else }}
    configMap: {name: {{ .Values.ca.configMap }}, items: [{key: {{ .Values.ca.key | quote }}, path: ca.crt}]}
    {{- end }}
{{- end }}
{{- end }}

{{/* Settings from the ConfigMap and, by name, the secrets that this process needs. */}}
{{- define "berth.env" -}}
{{- $root := .root }}
envFrom:
  - configMapRef: {name: {{ include "berth.name" .root }}-settings}
env:
{{- if .root.Values.postgresql.enabled }}
  - name: POSTGRES_PASSWORD
    valueFrom: {secretKeyRef: {name: {{ include "berth.secret" .root }}, key: POSTGRES_PASSWORD}}
  - name: BERTH_DATABASE_URL
    value: postgres://berth:$(POSTGRES_PASSWORD)@{{ include "berth.name" .root }}-postgresql:5432/berth
{{- else }}
  - name: BERTH_DATABASE_URL
    valueFrom: {secretKeyRef: {name: {{ include "berth.secret" .root }}, key: BERTH_DATABASE_URL}}
{{- end }}
{{- if .root.Values.redis.enabled }}
  - name: REDIS_PASSWORD
    valueFrom: {secretKeyRef: {name: {{ include "berth.secret" .root }}, key: REDIS_PASSWORD}}
  - name: BERTH_REDIS_URL
    value: redis://:$(REDIS_PASSWORD)@{{ include "berth.name" .root }}-redis:6379/0
{{- else }}
  - name: BERTH_REDIS_URL
    valueFrom: {secretKeyRef: {name: {{ include "berth.secret" .root }}, key: BERTH_REDIS_URL}}
{{- end }}
{{- range .secrets }}
  - name: {{ . }}
    valueFrom: {secretKeyRef: {name: {{ include "berth.secret" $root }}, key: {{ . }}}}
{{- end }}
{{- range .optional }}
  - name: {{ . }}
    valueFrom: {secretKeyRef: {name: {{ include "berth.secret" $root }}, key: {{ . }}, optional: true}}
{{- end }}
{{- end }}

{{/* Restart what reads the settings when they change. */}}
{{- define "berth.annotations" -}}
berth.dev/settings: {{ include (print .Template.BasePath "/settings.yaml") . | sha256sum | trunc 16 | quote }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The names of the notebook proxies, one by one: each must know every route. */}}
{{- define "berth.proxies" -}}
{{- $name := include "berth.name" . }}
{{- $urls := list }}
{{- range $i := until (int .Values.proxy.replicas) }}
{{- $urls = append $urls (printf "http://%s-proxy-%d.%s-proxy-api.%s.svc:8003" $name $i $name $.Release.Namespace) }}
{{- end }}
{{- join "," $urls }}
{{- end }}

{{/* Peers of a NetworkPolicy: these processes of this release. */}}
{{- define "berth.from" }}
{{- $root := .root }}
{{- range .processes }}
- podSelector:
    matchLabels: {{- include "berth.selector" (dict "root" $root "process" .) | nindent 6 }}
{{- end }}
{{- end }}

{{/* What cluster.storage says, by the names of options; cluster.options goes before it. An earlier
chart, whose values are kept, had directories only. */}}
{{- define "berth.storage" -}}
{{- $said := .Values.cluster.storage | default (dict "kind" "directory") }}
{{- $made := dict "volume_kind" $said.kind "volume_path" .Values.cluster.volumePath }}
{{- if $said.accessMode }}{{ $_ := set $made "volume_access_mode" $said.accessMode }}{{ end }}
{{- if eq $said.kind "storageclass" }}{{ $_ := set $made "storage_class" ($said.className | default "") }}{{ end }}
{{- if eq $said.kind "nfs" }}
{{- $_ := set $made "nfs_server" (($said.nfs).server | default "") }}
{{- $_ := set $made "nfs_export" (($said.nfs).export | default "") }}
{{- end }}
{{- $made = mergeOverwrite $made (pick .Values.cluster.options "volume_kind" "volume_path" "storage_class" "volume_access_mode" "nfs_server" "nfs_export") }}
{{- if eq $made.volume_kind "nfs" }}
{{- if not (and (regexMatch "^[A-Za-z0-9.:-]{1,253}$" ($made.nfs_server | default "")) (regexMatch "^/[A-Za-z0-9._/-]*$" ($made.nfs_export | default ""))) }}{{ fail "cluster.storage.nfs: server and export must be set" }}{{ end }}
{{- end }}
{{- $made | toJson }}
{{- end }}

{{/* NFS exports on which Berth's volumes may lie: those of classes, and that of homes. */}}
{{- define "berth.exports" -}}
{{- $storage := include "berth.storage" . | fromJson }}
{{- $exports := .Values.cluster.nfs | default list }}
{{- if eq $storage.volume_kind "nfs" }}
{{- $exports = append $exports (dict "server" $storage.nfs_server "export" $storage.nfs_export) }}
{{- end }}
{{- $exports | toJson }}
{{- end }}
