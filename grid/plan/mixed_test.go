package plan

import "testing"

// What is ready of a workload may be the pods before; what its controller has not seen
// yet says nothing of new ones.
func TestOldPodsThatServeAreNamed(t *testing.T) {
	for status, want := range map[string]string{
		`{observedGeneration: 2, replicas: 2, updatedReplicas: 1, readyReplicas: 1}`: "of 1 replicas 1 are ready, 1 are current; 1 new pod is not ready, 1 old one still serves",
		`{observedGeneration: 1, replicas: 2, updatedReplicas: 1, readyReplicas: 1}`: "of 1 replicas 1 are ready, 1 are current",
		`{observedGeneration: 2, replicas: 1, updatedReplicas: 0, readyReplicas: 1}`: "of 1 replicas 1 are ready, 0 are current",
		`{observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 0}`: "of 1 replicas 0 are ready, 1 are current",
		`{observedGeneration: 2, replicas: 2, updatedReplicas: 1, readyReplicas: 2}`: "of 1 replicas 2 are ready, 1 are current",
		`{observedGeneration: 2, replicas: 5, updatedReplicas: 3, readyReplicas: 3}`: "of 1 replicas 3 are ready, 3 are current; 2 new pods are not ready, 2 old ones still serve",
	} {
		c := readChild(parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 2}, spec: {replicas: 1}, status: `+status+`}`))
		if got := c.lag(); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
