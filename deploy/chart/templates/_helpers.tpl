{{/* The chart's name, or its replacement. */}}
{{- define "pilothouse.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects: the release's name, with the chart's unless it contains that. */}}
{{- define "pilothouse.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "pilothouse.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels by which the pod is selected. They never change. */}}
{{- define "pilothouse.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pilothouse.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: host
{{- end -}}

{{/* The labels of all objects. */}}
{{- define "pilothouse.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "pilothouse.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The name of the host's service account. */}}
{{- define "pilothouse.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "pilothouse.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The reference of the image. */}}
{{- define "pilothouse.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest -}}
@{{ .Values.image.digest }}
{{- else -}}
:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Who may read the status port. */}}
{{- define "pilothouse.auth" -}}
{{- $address := .Values.status.address -}}
{{- $isLoopback := or (hasPrefix "127." $address) (eq $address "[::1]") -}}
{{- .Values.status.auth | default (ternary "none" "kubernetes" $isLoopback) -}}
{{- end -}}

{{/* The DNS names by which clients call the status port, separated by commas. */}}
{{- define "pilothouse.allowedHosts" -}}
{{- $names := list -}}
{{- if .Values.service.enabled -}}
{{- $name := include "pilothouse.fullname" . -}}
{{- $names = list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) -}}
{{- end -}}
{{- concat $names .Values.status.allowedHosts | uniq | join "," -}}
{{- end -}}

{{/* The host's configuration file. */}}
{{- define "pilothouse.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.pluginResource.enabled -}}
{{- $_ := set $config "pluginResource" (dict "enabled" true "namespaces" .Values.pluginResource.namespaces) -}}
{{- end -}}
{{- $registries := deepCopy ($config.registries | default dict) -}}
{{- with .Values.registries -}}
{{- if .credentialsSecret.name -}}
{{- $_ := set $registries "credentials" (printf "/etc/registries/credentials/%s" .credentialsSecret.key) -}}
{{- end -}}
{{- if or .signaturePolicy.configMap .signaturePolicy.secret -}}
{{- $_ := set $registries "policy" (printf "/etc/registries/policy/%s" .signaturePolicy.key) -}}
{{- end -}}
{{- if or .certificateAuthority.configMap .certificateAuthority.secret -}}
{{- $_ := set $registries "certificateAuthority" (printf "/etc/registries/authorities/%s" .certificateAuthority.key) -}}
{{- end -}}
{{- if .cache.volume -}}
{{- $_ := set $registries "cacheDir" "/pulled/oci" -}}
{{- end -}}
{{- end -}}
{{- if $registries -}}
{{- $_ := set $config "registries" $registries -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The mounts of the files about registries, and of what was pulled. */}}
{{- define "pilothouse.registryMounts" -}}
{{- with .Values.registries }}
{{- if .credentialsSecret.name }}
- name: registry-credentials
  mountPath: /etc/registries/credentials
  readOnly: true
{{- end }}
{{- if or .signaturePolicy.configMap .signaturePolicy.secret }}
- name: signature-policy
  mountPath: /etc/registries/policy
  readOnly: true
{{- end }}
{{- if or .certificateAuthority.configMap .certificateAuthority.secret }}
- name: registry-authorities
  mountPath: /etc/registries/authorities
  readOnly: true
{{- end }}
{{- if .cache.volume }}
- name: pulled
  mountPath: /pulled
  {{- with .cache.subPath }}
  subPath: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The volumes of these mounts. The host reads the files at each attempt, so a change needs no restart. */}}
{{- define "pilothouse.registryVolumes" -}}
{{- with .Values.registries }}
{{- with .credentialsSecret.name }}
- name: registry-credentials
  secret:
    secretName: {{ . }}
{{- end }}
{{- with include "pilothouse.filesOfObject" .signaturePolicy }}
- name: signature-policy
  {{- . | nindent 2 }}
{{- end }}
{{- with include "pilothouse.filesOfObject" .certificateAuthority }}
- name: registry-authorities
  {{- . | nindent 2 }}
{{- end }}
{{- with .cache.volume }}
- name: pulled
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The source of a volume with the files of a ConfigMap or a Secret. Empty without one. */}}
{{- define "pilothouse.filesOfObject" -}}
{{- if .configMap -}}
configMap:
  name: {{ .configMap }}
{{- else if .secret -}}
secret:
  secretName: {{ .secret }}
{{- end -}}
{{- end -}}

{{/* Whether there is a directory for what is pulled. Empty if there is none. */}}
{{- define "pilothouse.hasPulledDirectory" -}}
{{- if or (ne .Values.cache.type "none") .Values.registries.cache.volume (dig "registries" "cacheDir" "" .Values.config) -}}true{{- end -}}
{{- end -}}

{{/* The container's securityContext, and the mounts of the plugins and their sidecars. */}}
{{- define "pilothouse.pluginMounts" -}}
{{- $directory := .Values.plugins.directory -}}
{{- if eq .Values.plugins.source "image" }}
{{- range $plugin := keys .Values.plugins.sidecars | sortAlpha }}
- name: sidecars
  mountPath: {{ $directory }}/{{ $plugin }}.yaml
  subPath: {{ $plugin }}.yaml
  readOnly: true
{{- end }}
{{- else }}
- name: plugins
  mountPath: {{ $directory }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* The volume of the plugins, or of their sidecars. */}}
{{- define "pilothouse.pluginVolumes" -}}
{{- $sidecars := printf "%s-sidecars" (include "pilothouse.fullname" .) -}}
{{- if eq .Values.plugins.source "volume" }}
- name: plugins
  {{- toYaml .Values.plugins.volume | nindent 2 }}
{{- else if eq .Values.plugins.source "configMaps" }}
- name: plugins
  projected:
    sources:
      {{- range .Values.plugins.configMaps }}
      - configMap:
          name: {{ . }}
      {{- end }}
      {{- if .Values.plugins.sidecars }}
      - configMap:
          name: {{ $sidecars }}
      {{- end }}
{{- else if .Values.plugins.sidecars }}
- name: sidecars
  configMap:
    name: {{ $sidecars }}
{{- end }}
{{- end -}}

{{/* What the host may do with objects of the kind Plugin. */}}
{{- define "pilothouse.pluginResourceRules" -}}
- apiGroups: ["pilothouse.dev"]
  resources: ["plugins"]
  verbs: ["list", "watch"]
- apiGroups: ["pilothouse.dev"]
  resources: ["plugins/status"]
  verbs: ["patch"]
{{- end -}}

{{/* The URL of the collector of traces. Empty without one. */}}
{{- define "pilothouse.tracingEndpoint" -}}
{{- .Values.tracing.endpoint | default (dig "tracing" "endpoint" "" .Values.config) -}}
{{- end -}}

{{/* The port of the collector of traces. Empty without one. */}}
{{- define "pilothouse.tracingPort" -}}
{{- with include "pilothouse.tracingEndpoint" . -}}
{{- $url := urlParse . -}}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end -}}
{{- end -}}

{{/* Ends the rendering if values contradict each other. The schema checks single values. */}}
{{- define "pilothouse.validate" -}}
{{- $plugins := .Values.plugins -}}
{{- if and (eq $plugins.source "volume") (not $plugins.volume) -}}
{{- fail "plugins.source is \"volume\", but plugins.volume is empty: name a volume, such as {persistentVolumeClaim: {claimName: plugins}}" -}}
{{- end -}}
{{- if and (ne $plugins.source "volume") $plugins.volume -}}
{{- fail (printf "plugins.volume is set, but plugins.source is %q: set plugins.source to \"volume\"" $plugins.source) -}}
{{- end -}}
{{- if and (eq $plugins.source "configMaps") (not $plugins.configMaps) -}}
{{- fail "plugins.source is \"configMaps\", but plugins.configMaps is empty: name the ConfigMaps that contain the .wasm files" -}}
{{- end -}}
{{- if and (ne $plugins.source "configMaps") $plugins.configMaps -}}
{{- fail (printf "plugins.configMaps is set, but plugins.source is %q: set plugins.source to \"configMaps\"" $plugins.source) -}}
{{- end -}}
{{- if and (eq $plugins.source "volume") $plugins.sidecars -}}
{{- fail "plugins.sidecars cannot be mounted into a volume: put the sidecars beside the .wasm files in the volume" -}}
{{- end -}}
{{- if and (eq .Values.cache.type "volume") (not .Values.cache.volume) -}}
{{- fail "cache.type is \"volume\", but cache.volume is empty: name a volume, or use cache.type memory" -}}
{{- end -}}
{{- if and (ne .Values.cache.type "volume") .Values.cache.volume -}}
{{- fail (printf "cache.volume is set, but cache.type is %q: set cache.type to \"volume\"" .Values.cache.type) -}}
{{- end -}}
{{- if hasKey .Values.config "pluginResource" -}}
{{- fail "config.pluginResource is set, which installs neither the CRD nor the host's role for it: set pluginResource.enabled and pluginResource.namespaces" -}}
{{- end -}}
{{- $resource := .Values.pluginResource -}}
{{- if and $resource.namespaces (not $resource.enabled) -}}
{{- fail "pluginResource.namespaces is set, but pluginResource.enabled is false: enable it, or leave pluginResource.namespaces out" -}}
{{- end -}}
{{- if and (has "*" $resource.namespaces) (gt (len $resource.namespaces) 1) -}}
{{- fail "pluginResource.namespaces contains \"*\", which stands for all namespaces: remove the other entries" -}}
{{- end -}}
{{- $hasDirectory := include "pilothouse.hasPulledDirectory" . -}}
{{- if and $resource.enabled (not $hasDirectory) -}}
{{- fail "pluginResource.enabled needs a directory for pulled plugins: use another cache.type than \"none\", or set registries.cache.volume" -}}
{{- end -}}
{{- if and (dig "plugins" list .Values.config) (not $hasDirectory) -}}
{{- fail "config.plugins needs a directory for pulled plugins: use another cache.type than \"none\", or set registries.cache.volume" -}}
{{- end -}}
{{- range $value := list "signaturePolicy" "certificateAuthority" -}}
{{- $files := get $.Values.registries $value -}}
{{- if and $files.configMap $files.secret -}}
{{- fail (printf "registries.%s.configMap and registries.%s.secret are both set: remove one of them" $value $value) -}}
{{- end -}}
{{- end -}}
{{- $registries := .Values.registries -}}
{{- $mounted := dict "credentials" (list "registries.credentialsSecret.name" $registries.credentialsSecret.name) "policy" (list "registries.signaturePolicy" (or $registries.signaturePolicy.configMap $registries.signaturePolicy.secret)) "certificateAuthority" (list "registries.certificateAuthority" (or $registries.certificateAuthority.configMap $registries.certificateAuthority.secret)) "cacheDir" (list "registries.cache.volume" $registries.cache.volume) -}}
{{- range $member := keys $mounted | sortAlpha -}}
{{- $value := get $mounted $member -}}
{{- if and (last $value) (dig "registries" $member "" $.Values.config) -}}
{{- fail (printf "%s and config.registries.%s are both set: remove one of them" (first $value) $member) -}}
{{- end -}}
{{- end -}}
{{- if and $registries.cache.subPath (not $registries.cache.volume) -}}
{{- fail "registries.cache.subPath is set, but registries.cache.volume is empty: name a volume" -}}
{{- end -}}
{{- if and .Values.prometheus.podMonitor.enabled .Values.prometheus.serviceMonitor.enabled -}}
{{- fail "prometheus.podMonitor.enabled and prometheus.serviceMonitor.enabled are both true: every metric would be scraped twice; enable one" -}}
{{- end -}}
{{- if and .Values.prometheus.serviceMonitor.enabled (not .Values.service.enabled) -}}
{{- fail "prometheus.serviceMonitor.enabled needs service.enabled: enable the Service, or use prometheus.podMonitor" -}}
{{- end -}}
{{- if and .Values.tracing.headersSecret.name (not (include "pilothouse.tracingEndpoint" .)) -}}
{{- fail "tracing.headersSecret.name is set, but tracing.endpoint is empty: set the URL of the collector" -}}
{{- end -}}
{{- $egress := .Values.networkPolicy.egress -}}
{{- if and $egress.registryCidrs (not $egress.registryPorts) -}}
{{- fail "networkPolicy.egress.registryCidrs is set, but networkPolicy.egress.registryPorts is empty: name the ports of the registries, such as [443]" -}}
{{- end -}}
{{- $auth := include "pilothouse.auth" . -}}
{{- if and .Values.prometheus.podMonitor.enabled (eq $auth "kubernetes") (not .Values.prometheus.podMonitor.authorization) -}}
{{- fail "prometheus.podMonitor.enabled needs prometheus.podMonitor.authorization with status.auth \"kubernetes\": name a Secret with a token, or use prometheus.serviceMonitor, which sends the token of Prometheus's own service account" -}}
{{- end -}}
{{- if and .Values.prometheus.serviceAccounts (ne $auth "kubernetes") -}}
{{- fail (printf "prometheus.serviceAccounts is set, but status.auth is %q, so everyone may read the metrics: leave prometheus.serviceAccounts out" $auth) -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and (not (kindIs "invalid" $budget.minAvailable)) (not (kindIs "invalid" $budget.maxUnavailable)) -}}
{{- fail "podDisruptionBudget.minAvailable and podDisruptionBudget.maxUnavailable are both set: a PodDisruptionBudget has one of them" -}}
{{- end -}}
{{- if and .Values.rbac.roles (not .Values.rbac.create) -}}
{{- fail "rbac.roles is set, but rbac.create is false: set rbac.create, or leave rbac.roles out" -}}
{{- end -}}
{{- if not .Values.rbac.allowWildcards -}}
{{- range $role := .Values.rbac.roles -}}
{{- range $rule := $role.rules -}}
{{- range $text := concat $rule.apiGroups $rule.resources $rule.verbs -}}
{{- if contains "*" $text -}}
{{- fail (printf "rbac.roles contains %q, which grants more than can be listed: name each group, resource and verb (narrow the plugin with its sidecar), or set rbac.allowWildcards" $text) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
