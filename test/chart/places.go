package main

import "strings"

// bootstrapFlags are those of the agent that Envoy's bootstrap goes by as well: both
// are given the same.
var bootstrapFlags = []string{"admin-socket", "listen-port-base", "mark", "xds-socket"}

// place is a text of a manifest, and what it is in the template of it. Texts are
// looked for as templates are when it is their turn.
type place struct{ manifest, template string }

// places are the values of the chart (deploy/helm/gridmesh/values.yaml), by the
// manifest that has them.
var places = map[string][]place{
	"rbac.yaml": {
		// Helm makes the release's own namespace, and takes none that is there.
		{"apiVersion: v1\nkind: Namespace\n", mistakes + "{{- if ne .Release.Namespace \"gridmesh\" }}\napiVersion: v1\nkind: Namespace\n"},
		{"enforce: privileged\n---\n", "enforce: privileged\n---\n{{- end }}\n"},
	},
	"agent.yaml": {
		{"  host: 10.200.0.1\n", "  host: {{ .Values.apiServer.host | quote }}\n"},
		{`  port: "6443"` + "\n", "  port: {{ int .Values.apiServer.port | quote }}\n"},
		{"  serviceCIDRs: 10.96.0.0/16,fd00:96::/112\n", "  serviceCIDRs: {{ join \",\" .Values.serviceCIDRs | quote }}\n"},
		image("agent"), nodeSelector, tolerations,
		{"      hostNetwork: true\n", `      hostNetwork: true
{{- if has "--take-over=kube-proxy" .Values.agentArgs }}
      hostPID: true
{{- end }}
`},
		resources("agent", "{requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 300Mi}}"),
		{"            - --proc-sys=/host/proc-sys\n", `            - --proc-sys=/host/proc-sys
{{- if ne .Values.datapath "auto" }}
            - --datapath={{ .Values.datapath }}
{{- end }}
{{- if ne .Values.networkPolicies "warn" }}
            - --network-policies={{ .Values.networkPolicies }}
{{- end }}
{{- range .Values.agentArgs }}
            - {{ . | quote }}
{{- end }}
`},
	},
	"envoy.yaml": {
		image("agent"), nodeSelector, tolerations,
		{"apiVersion: apps/v1\nkind: DaemonSet\n", `{{- $ready := 15009 }}
{{- range .Values.agentArgs }}
{{- if hasPrefix "--listen-port-base=" . }}
{{- $ready = trimPrefix "--listen-port-base=" . | int | add 8 }}
{{- end }}
{{- end }}
apiVersion: apps/v1
kind: DaemonSet
`},
		{"          image: envoy\n", "          image: {{ .Values.images.envoy | quote }}\n"},
		{
			"--envoy-heap-limit=448]",
			`--envoy-heap-limit={{ int .Values.envoyHeapLimit }}{{ range .Values.agentArgs }}{{ if regexMatch "^--(` + strings.Join(bootstrapFlags, "|") + `)=" . }}, {{ . | quote }}{{ end }}{{ end }}]`,
		},
		{"port: 15009}, periodSeconds: 2,", "port: {{ $ready }} }, periodSeconds: 2,"},
		{"port: 15009}, periodSeconds: 5,", "port: {{ $ready }} }, periodSeconds: 5,"},
		resources("envoy", "{requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}"),
	},
	"controller.yaml": {
		{"# gridmesh-controller: two", "{{- if .Values.controller.enabled }}\n# gridmesh-controller: two"},
		image("controller"),
		notOnNodesWith,
		{
			"args: [--secure-metrics-bind-address=0.0.0.0:10359]\n",
			`args: [--secure-metrics-bind-address=0.0.0.0:10359{{ if .Values.health.enabled }}, {{ printf "--health-unit-key=%s" .Values.health.unitKey | quote }}{{ end }}]` + "\n",
		},
		{"resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 1Gi}}\n", "resources: {{ toJson .Values.resources.controller }}\n{{- end }}\n"},
	},
	// The daemon is on every node, whichever gridmesh serves: who is not asked does not vote.
	"health/health.yaml": {
		{"# gridmesh-health on every node", "{{- if .Values.health.enabled }}\n# gridmesh-health on every node"},
		{"change it to yours, here and in\n# deploy/health/kustomization.yaml. The nodes", "the value\n# health.unitKey. The nodes"},
		image("health"),
		{"            - --unit-key=unit\n", `            - {{ printf "--unit-key=%s" .Values.health.unitKey | quote }}` + "\n"},
		resources("health", "{requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 100Mi}}"),
		{endOfHealth, endOfHealth + "{{- end }}\n"},
	},
	"admission/admission.yaml": {
		{"# gridmesh-admission: two", "{{- if .Values.admission.enabled }}\n# gridmesh-admission: two"},
		image("admission"), notOnNodesWith,
		resources("admission", "{requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 256Mi}}"),
		{endOfAdmission, endOfAdmission + "{{- end }}\n"},
	},
	"dns.yaml": {
		{"{name: CLUSTER_DOMAIN, value: cluster.local}", "{name: CLUSTER_DOMAIN, value: {{ .Values.clusterDomain | quote }}}"},
		{"{name: CLUSTER_DNS, value: 10.96.0.10}", "{name: CLUSTER_DNS, value: {{ .Values.clusterDNS | quote }}}"},
		{"{name: POD_CIDR, value: 10.244.0.0/16}", "{name: POD_CIDR, value: {{ first .Values.podCIDRs | quote }}}"},
		{`{name: POD_CIDR_2, value: "fd00:244::/32"}`, "{name: POD_CIDR_2, value: {{ last .Values.podCIDRs | quote }}}"},
		image("dns"), tolerations,
		{"      nodeSelector:\n        kubernetes.io/os: linux\n", nodeSelector.template},
		resources("dns", "{requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 170Mi}}"),
	},
}

// mistakes ends with those in values that do not go together (_mistakes.tpl), all at once.
const mistakes = `{{- with include "gridmesh.mistakes" . | trim }}
{{- fail (printf "mistakes in the values:\n%s" .) }}
{{- end }}
`

// The ends of the manifests of components, which are there where a value says so.
const (
	endOfAdmission = "          oldObject.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')\n"
	endOfHealth    = "        - {name: apiserver, configMap: {name: gridmesh-apiserver}}\n"
)

var (
	notOnNodesWith = place{
		`                  - {key: openyurt.io/is-edge-worker, operator: NotIn, values: ["true"]}` + "\n",
		`                  - {key: openyurt.io/is-edge-worker, operator: NotIn, values: ["true"]}
{{- range .Values.controller.notOnNodesWith }}
                  - {key: {{ . | quote }}, operator: DoesNotExist}
{{- end }}
`,
	}
	nodeSelector = place{
		"      nodeSelector: {kubernetes.io/os: linux}\n",
		"      nodeSelector: {{ merge (dict \"kubernetes.io/os\" \"linux\") .Values.nodeSelector | toJson }}\n",
	}
	tolerations = place{
		"      tolerations: [{operator: Exists}]\n",
		"      tolerations: {{ toJson .Values.tolerations }}\n",
	}
)

func image(name string) place {
	return place{"          image: gridmesh-" + name + "\n", "          image: {{ .Values.images." + name + " | quote }}\n"}
}

func resources(name, manifest string) place {
	return place{"resources: " + manifest + "\n", "resources: {{ toJson .Values.resources." + name + " }}\n"}
}
