package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What is honoured, or belongs to others than a kubelet. Everything else that
// a pod says is reported.
var (
	podFields = []string{
		"containers", "initContainers", "volumes", "restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy", "dnsConfig",
		"serviceAccountName", "serviceAccount", "automountServiceAccountToken", "nodeName", "nodeSelector", "hostNetwork", "hostname", "subdomain",
		"affinity", "schedulerName", "tolerations", "priorityClassName", "priority", "preemptionPolicy", "topologySpreadConstraints",
		"readinessGates", "enableServiceLinks", "securityContext", "imagePullSecrets", "hostAliases",
	}
	containerFields = []string{
		"name", "image", "command", "args", "workingDir", "ports", "env", "volumeMounts", "livenessProbe", "readinessProbe",
		"terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "resources", "securityContext",
	}
	volumeKinds = []string{"name", "emptyDir", "hostPath", "configMap", "secret", "projected", "downwardAPI"}
	mountFields = []string{"name", "mountPath", "readOnly", "subPath", "mountPropagation", "recursiveReadOnly"}
	probeFields = []string{"httpGet", "tcpSocket", "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}
	envFields   = []string{"name", "value", "valueFrom.fieldRef", "valueFrom.configMapKeyRef", "valueFrom.secretKeyRef"}
)

// unhonoured lists the fields of a pod that the stand-in does not act on.
func unhonoured(pod *corev1.Pod) []string {
	spec := asMap(pod.Spec)
	found := extra("spec", spec, podFields)
	for _, v := range asList(spec["volumes"]) {
		found = append(found, extra(fmt.Sprintf("spec.volumes[%v]", v["name"]), v, volumeKinds)...)
	}
	for _, group := range []string{"containers", "initContainers"} {
		for _, c := range asList(spec[group]) {
			path := fmt.Sprintf("spec.%s[%v]", group, c["name"])
			found = append(found, extra(path, c, containerFields)...)
			for _, probe := range []string{"livenessProbe", "readinessProbe"} {
				if p, ok := c[probe].(map[string]any); ok {
					found = append(found, extra(path+"."+probe, p, probeFields)...)
				}
			}
			for _, m := range asList(c["volumeMounts"]) {
				found = append(found, extra(path+".volumeMounts", m, mountFields)...)
			}
			for _, e := range asList(c["env"]) {
				if from, ok := e["valueFrom"].(map[string]any); ok {
					delete(e, "valueFrom")
					for kind := range from {
						e["valueFrom."+kind] = true
					}
				}
				found = append(found, extra(fmt.Sprintf("%s.env[%v]", path, e["name"]), e, envFields)...)
			}
		}
	}
	return found
}

func extra(path string, m map[string]any, known []string) []string {
	var found []string
	for key := range m {
		if !slices.Contains(known, key) {
			found = append(found, path+"."+key)
		}
	}
	slices.Sort(found)
	return found
}

func asMap(v any) map[string]any {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var m map[string]any
	_ = json.Unmarshal(data, &m)
	return m
}

func asList(v any) []map[string]any {
	items, _ := v.([]any)
	var list []map[string]any
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			list = append(list, m)
		}
	}
	return list
}

func honouredCondition(pod *corev1.Pod) corev1.PodCondition {
	c := corev1.PodCondition{Type: "Honoured", Status: corev1.ConditionTrue}
	if missing := unhonoured(pod); len(missing) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, "NotSupported"
		c.Message = "the stand-in kubelet does not act on " + strings.Join(missing, ", ")
	}
	return c
}
