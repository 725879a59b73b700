package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

// request is one of a resource by a user, as an API server sends it.
func request(resource, kind, user, old, next string) string {
	group, version := "", "v1"
	if resource == "endpointslices" {
		group = "discovery.k8s.io"
	}
	resource, sub, _ := strings.Cut(resource, "/")
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE","kind":{"group":%q,"version":%q,"kind":%q},
"resource":{"group":%q,"version":%q,"resource":%q},"subResource":%q,"userInfo":{"username":%q},"oldObject":%s,"object":%s}}`, group, version, kind, group, version, resource, sub, user, old, next)
}

const (
	nodeController  = "system:serviceaccount:kube-system:node-controller"
	sliceController = "system:serviceaccount:kube-system:endpointslice-controller"

	aNode      = `{"metadata":{"name":"n"},"spec":{}}`
	aLostNode  = `{"metadata":{"name":"n"},"spec":{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoSchedule"},{"key":"node.kubernetes.io/unreachable","effect":"NoExecute","timeAdded":"2026-01-02T12:00:00Z"}]}}`
	aPod       = `{"metadata":{"name":"p"},"spec":{"nodeName":"n"},"status":{"conditions":[{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T12:00:00Z"}]}}`
	aLostPod   = `{"metadata":{"name":"p"},"spec":{"nodeName":"n"},"status":{"conditions":[{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"False","lastTransitionTime":"2026-01-02T12:00:00Z"}]}}`
	written    = `"managedFields":[{"manager":"kube-controller-manager","time":"2026-01-02T12:00:00Z"}]`
	aSlice     = `{"metadata":{"name":"s"},"endpoints":[{"addresses":["10.0.0.1"],"nodeName":"n","targetRef":{"uid":"p"},"conditions":{"ready":true,"serving":true}}]}`
	aLostSlice = `{"metadata":{"name":"s",` + written + `},"endpoints":[{"addresses":["10.0.0.1"],"nodeName":"n","targetRef":{"uid":"p"},"conditions":{"ready":false,"serving":false}}]}`
	theirs     = `{"metadata":{"name":"s"},"subsets":[{"addresses":[{"ip":"10.0.0.1","nodeName":"n","targetRef":{"uid":"p"}}]}]}`
	lostTheirs = `{"metadata":{"name":"s",` + written + `},"subsets":[{"notReadyAddresses":[{"ip":"10.0.0.1","nodeName":"n","targetRef":{"uid":"p"}}]}]}`
)

// Each path decides about its own resource, by those who write it, and about nothing else.
func TestPaths(t *testing.T) {
	shield := mutate.Shield{"n": time.Date(2026, 1, 2, 13, 0, 0, 0, time.UTC)}
	lost := map[string]string{
		"node-taint":    request("nodes", "Node", nodeController, aNode, aLostNode),
		"pod-status":    request("pods/status", "Pod", nodeController, aPod, aLostPod),
		"endpointslice": request("endpointslices", "EndpointSlice", sliceController, aSlice, aLostSlice),
		"endpoint":      request("endpoints", "Endpoints", "system:kube-controller-manager", theirs, lostTheirs),
	}
	for path, decide := range paths {
		for about, text := range lost {
			for what, change := range map[string]string{
				"": "", "another user": `"username":"system:node:n"`, "a creation": `"operation":"CREATE"`, "another version": `"version":"v1beta1"`,
			} {
				call := text
				if change != "" {
					key, _, _ := strings.Cut(change, ":")
					begin := strings.Index(call, key)
					end := begin + strings.IndexAny(call[begin+len(key)+1:], ",}") + len(key) + 1
					call = call[:begin] + change + call[end:]
				}
				in, err := decode([]byte(call))
				if err != nil {
					t.Fatalf("%v: %s", err, call)
				}
				patch, why, err := decide(in.Request, shield)
				if ours := path == about && change == ""; err != nil || (len(patch) > 0) != ours || (why == mutate.Shielded) != ours || !ours && why != notOurs || ours && !json.Valid(patch) {
					t.Errorf("%s about %s, %q: %s, %s, %v", path, about, what, patch, why, err)
				}
			}
		}
		for what, object := range map[string]string{"no object": "null", "another type": `{"metadata":7}`, "text": `"x"`} {
			in, err := decode([]byte(strings.Replace(lost[path], `"object":{`, `"object":`+object+`,"rest":{`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if patch, _, err := decide(in.Request, shield); len(patch) > 0 || err == nil {
				t.Errorf("%s: %s: %s, %v", path, what, patch, err)
			}
		}
	}
}
