package admission

import (
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

// paths are what is asked, each below the root: the first two are SuperEdge's.
var paths = map[string]Decide{
	"node-taint":    by(mutate.Nodes, mutate.Node),
	"endpoint":      by(mutate.LegacyEndpoints, mutate.Endpoints),
	"endpointslice": by(mutate.EndpointSlices, mutate.EndpointSlice),
	"pod-status":    by(mutate.Pods, mutate.Pod),
}

// Decide returns the JSON patch that a write takes, nil for none, and why.
type Decide func(in *admissionv1.AdmissionRequest, shield mutate.Shield) (patch []byte, why mutate.Reason, err error)

// notOurs is the reason of a write that a configuration should not ask about: of another
// resource or version, by somebody else, or no update.
const notOurs mutate.Reason = "not ours"

// by has writes of a resource decided. Who writes what is looked at again: an API server
// older than 1.28 knows no matchConditions, and anybody may call.
func by[T any](resource mutate.Resource, decide func(old, next *T, s mutate.Shield) (mutate.Patch, mutate.Reason)) Decide {
	return func(in *admissionv1.AdmissionRequest, shield mutate.Shield) ([]byte, mutate.Reason, error) {
		if in.Operation != admissionv1.Update || in.Kind.Version != "v1" || resourceOf(in) != resource || !mutate.Writes(in.UserInfo.Username, resource) {
			return nil, notOurs, nil
		}
		old, next := new(T), new(T)
		if err := json.Unmarshal(in.OldObject.Raw, old); err != nil {
			return nil, "", fmt.Errorf("read what is stored: %w", err)
		}
		if err := json.Unmarshal(in.Object.Raw, next); err != nil {
			return nil, "", fmt.Errorf("read what is to be written: %w", err)
		}
		p, why := decide(old, next, shield)
		if len(p) == 0 {
			return nil, why, nil
		}
		patch, err := json.Marshal(p)
		if err != nil {
			return nil, "", fmt.Errorf("write the patch: %w", err)
		}
		return patch, why, nil
	}
}

// resourceOf is what is written, as mutate names it.
func resourceOf(in *admissionv1.AdmissionRequest) mutate.Resource {
	if in.SubResource == "" {
		return mutate.Resource(in.Resource.Resource)
	}
	return mutate.Resource(in.Resource.Resource + "/" + in.SubResource)
}
