package plan

import "strings"

// extra reports whether a live pod template has what a wanted one does not name, and
// no default put there: an apply that takes over its fields would drop it, and
// so replace the pods.
func extra(f field, wanted, live any) bool {
	switch live := live.(type) {
	case Object:
		want, _ := wanted.(Object)
		for key, v := range live {
			w, named := want[key]
			if !named && (labelled[f.name] || labelled[key] || said(f.name, want, key, v)) || extra(f.below(key), w, v) {
				return true
			}
		}
	case []any:
		want, _ := wanted.([]any)
		if len(live) != len(want) {
			return true
		}
		for i, item := range want {
			if extra(f, item, live[i]) {
				return true
			}
		}
	}
	return false
}

// labelled are objects whose keys are the user's.
var labelled = map[string]bool{"labels": true, "annotations": true, "nodeSelector": true, "limits": true, "requests": true}

// said reports whether a scalar of a live object, which the wanted one does not
// name, is more than what Kubernetes puts there by itself.
func said(in string, want Object, key string, v any) bool {
	switch v := v.(type) {
	case Object, []any:
		return false // what is in them says it
	case string:
		if key == "imagePullPolicy" {
			return v != pullPolicy(value[string](want, "image"))
		}
		if key == "serviceAccount" { // the old name of serviceAccountName
			return v != want["serviceAccountName"]
		}
	}
	if same(false, v, nil) {
		return false
	}
	byDefault, known := podDefaults[in+"."+key]
	if !known {
		byDefault, known = podDefaults[key]
	}
	return !known || !same(false, byDefault, v)
}

// podDefaults are what the API server puts into a pod template where nothing is said
// (k8s.io/kubernetes/pkg/apis/core/v1/defaults.go). One that is missing here makes
// an adoption wait for its wave, and no more.
var podDefaults = map[string]any{
	"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": int64(30),
	"initContainers.restartPolicy": nil, // a sidecar
	"terminationMessagePath":       "/dev/termination-log", "terminationMessagePolicy": "File",
	"protocol": "TCP", "scheme": "HTTP", "httpGet.path": "/", "fieldRef.apiVersion": "v1", "procMount": "Default",
	"timeoutSeconds": int64(1), "periodSeconds": int64(10), "successThreshold": int64(1), "failureThreshold": int64(3),
	"defaultMode": int64(0o644), "serviceAccountToken.expirationSeconds": int64(3600), "volumeMode": "Filesystem",
}

// pullPolicy is what Kubernetes makes of an image where nothing is said.
func pullPolicy(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	if tag == "latest" || tag == "" && digest == "" {
		return "Always"
	}
	return "IfNotPresent"
}
