{{- /*
Values that values.schema.json takes one by one and that do not go together, or that no
program takes. rbac.yaml asks for all of them before anything is made. Written by hand.
*/ -}}

{{- /* The flags of gridmesh-agent; TestChartKnowsTheAgentsFlags holds both lists to its help. */ -}}
{{- define "gridmesh.flags" -}}
admin-socket bridge-netfilter client-connections cluster-domain config
conntrack-max-per-core conntrack-min conntrack-tcp-timeout-close-wait conntrack-tcp-timeout-established conntrack-udp-timeout conntrack-udp-timeout-stream
connect-timeout datapath dead-nodes-file envoy-heap-limit feed-socket healthz-bind-address hosts-file kubeconfig listen-port-base
manifests mark metrics-bind-address network-policies node-name nodeport-addresses pod-cidr preload-max proc-sys route-table
service-cidr state-dir status-socket take-over topology-keys xds-socket
{{- end -}}
{{- define "gridmesh.switches" -}}
close-on-move conntrack-tcp-be-liberal verbose
{{- end -}}

{{- /* The bits of an address, 32 or 128 characters; others of what is none. */ -}}
{{- define "gridmesh.bits" -}}
{{- if contains ":" . -}}
  {{- $digits := dict "0" "0000" "1" "0001" "2" "0010" "3" "0011" "4" "0100" "5" "0101" "6" "0110" "7" "0111" "8" "1000" "9" "1001" "a" "1010" "b" "1011" "c" "1100" "d" "1101" "e" "1110" "f" "1111" -}}
  {{- $halves := splitList "::" (lower .) -}}
  {{- $groups := without (splitList ":" (first $halves)) "" -}}
  {{- if gt (len $halves) 1 -}}
    {{- $back := without (splitList ":" (last $halves)) "" -}}
    {{- range until (int (max 1 (sub 8 (add (len $groups) (len $back))))) -}}{{- $groups = append $groups "0" -}}{{- end -}}
    {{- $groups = concat $groups $back -}}
  {{- end -}}
  {{- range $groups -}}{{- range splitList "" (trunc -4 (printf "000%s" .)) -}}{{- get $digits . -}}{{- end -}}{{- end -}}
{{- else -}}
  {{- range splitList "." . -}}{{- printf "%08b" (int64 .) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Says "yes" of an address: fd00:96 has as many bits as one of IPv4. */ -}}
{{- define "gridmesh.whole" -}}
{{- $groups := "([0-9a-f]{1,4}(:[0-9a-f]{1,4})*)?" -}}
{{- if contains ":" . -}}
  {{- if and (regexMatch (printf "^%s(::%s)?$" $groups $groups) (lower .)) (eq (len (include "gridmesh.bits" .)) 128) -}}yes{{- end -}}
{{- else if and (regexMatch "^[0-9]+([.][0-9]+){3}$" .) (eq (len (include "gridmesh.bits" .)) 32) -}}yes{{- end -}}
{{- end -}}

{{- /* Says "yes" where two ranges, or a range and an address, have an address in common. */ -}}
{{- define "gridmesh.meet" -}}
{{- $a := splitList "/" (first .) -}}
{{- $b := splitList "/" (last .) -}}
{{- $bitsA := include "gridmesh.bits" (first $a) -}}
{{- $bitsB := include "gridmesh.bits" (first $b) -}}
{{- $short := len $bitsA -}}
{{- if gt (len $a) 1 -}}{{- $short = min $short (int64 (last $a)) -}}{{- end -}}
{{- if gt (len $b) 1 -}}{{- $short = min $short (int64 (last $b)) -}}{{- end -}}
{{- if and (eq (len $bitsA) (len $bitsB)) (eq (trunc (int $short) $bitsA) (trunc (int $short) $bitsB)) -}}yes{{- end -}}
{{- end -}}

{{- /* A quantity of memory in bytes; nothing of what is none. */ -}}
{{- define "gridmesh.bytes" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "([KMGTPE]i|[mkMGTPE])$" $text -}}
{{- $number := trimSuffix $unit $text -}}
{{- if regexMatch "^[0-9]+(\\.[0-9]*)?([eE]\\+?[0-9]+)?$" $number -}}
  {{- $of := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
  {{- mulf (float64 $number) (get $of $unit) -}}
{{- end -}}
{{- end -}}

{{- define "gridmesh.mistakes" -}}
{{- $values := .Values -}}
{{- range $name := list "serviceCIDRs" "podCIDRs" }}{{ range index $values $name }}
{{- $bits := include "gridmesh.bits" (first (splitList "/" .)) }}
{{- if not (include "gridmesh.whole" (first (splitList "/" .))) }}
- {{ $name }}: {{ . }} is no range; write it as 10.96.0.0/16 or fd00:96::/112
{{- else if contains "1" (substr (int (last (splitList "/" .))) (len $bits) $bits) }}
- {{ $name }}: {{ . }} has bits beyond its length; write zeros there, as in 10.96.0.0/16 or fd00:96::/112
{{- end }}
{{- end }}{{ end }}
{{- range $service := $values.serviceCIDRs }}{{ range $values.podCIDRs }}
{{- if include "gridmesh.meet" (list $service .) }}
- serviceCIDRs: {{ $service }} overlaps {{ . }} of podCIDRs, and what is dialled in it would be refused; give the API server's --service-cluster-ip-range, and [] where you do not know it
{{- end }}
{{- end }}{{ end }}
{{- if gt (len $values.podCIDRs) 1 }}{{ $first := first $values.podCIDRs }}{{ $second := last $values.podCIDRs }}
{{- if eq (contains ":" $first) (contains ":" $second) }}
- podCIDRs: {{ $first }} and {{ $second }} are of one family; give one range, which holds all pods, or one of each family
{{- end }}
{{- end }}
{{- if not (include "gridmesh.whole" $values.clusterDNS) }}
- clusterDNS: {{ $values.clusterDNS }} is no address; write it as 10.96.0.10 or fd00:96::a
{{- end }}
{{- $host := $values.apiServer.host }}
{{- if or (contains ":" $host) (regexMatch "^[0-9.]+$" $host) }}
{{- if not (include "gridmesh.whole" $host) }}
- apiServer.host: {{ $host }} is no address
{{- end }}
{{- range $values.serviceCIDRs }}
{{- if include "gridmesh.meet" (list . $host) }}
- apiServer.host: {{ $host }} is in {{ . }} of serviceCIDRs; give the API server's real address, and no ClusterIP: agents would need themselves to reach it
{{- end }}
{{- end }}
{{- end }}
{{- with dig "limits" "memory" "" $values.resources.envoy }}
{{- $limit := include "gridmesh.bytes" . }}
{{- if not $limit }}
- resources.envoy.limits.memory: {{ . }} is no quantity; write it as 512Mi
{{- else if ge (mulf $values.envoyHeapLimit 1048576) (float64 $limit) }}
- envoyHeapLimit: {{ int $values.envoyHeapLimit }} MiB are not below resources.envoy.limits.memory, {{ . }}, and Envoy would be killed before it ends connections; lower the one, or raise the other
{{- end }}
{{- end }}
{{- $health := $values.health }}
{{- if and $values.admission.enabled (not $health.enabled) }}
- admission.enabled: the webhook shields the nodes that node health names, and without it nobody ever; set health.enabled and health.unitKey, too (docs/health.md)
{{- end }}
{{- if and $health.enabled (not $health.unitKey) }}
- health.unitKey: is empty; give the label whose value is a node's unit, as unit (docs/health.md)
{{- end }}
{{- if and (or $health.enabled $values.admission.enabled) (not $values.controller.enabled) }}
- controller.enabled: the controller keeps the list of nodes that are shielded; set it to true, or health.enabled and admission.enabled to false
{{- end }}
{{- $flags := regexSplit "\\s+" (include "gridmesh.flags" .) -1 }}
{{- $switches := regexSplit "\\s+" (include "gridmesh.switches" .) -1 }}
{{- range $values.agentArgs }}
{{- $flag := regexFind "^[A-Za-z0-9_-]+" (trimPrefix "--" .) }}
{{- $value := trimPrefix (printf "--%s" $flag) . }}
{{- if or (has $flag $flags) (and $value (has $flag $switches)) }}
{{- if not (hasPrefix "=" $value) }}
- agentArgs: {{ . }} has no value; write both in one, as --{{ $flag }}=VALUE
{{- end }}
{{- else if not (has $flag $switches) }}
{{- $like := list }}
{{- range concat $flags $switches }}{{ if eq (trunc 5 .) (trunc 5 $flag) }}{{ $like = append $like (printf "--%s" .) }}{{ end }}{{ end }}
- agentArgs: gridmesh-agent has no flag --{{ $flag }}{{ if and $like (le (len $like) 2) }}; did you mean {{ join " or " $like }}?{{ end }} (docs/agent.md lists them)
{{- end }}
{{- end }}
{{- end -}}
