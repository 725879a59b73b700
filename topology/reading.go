package topology

import "fmt"

// Options choose between readings of the same objects.
type Options struct {
	Reading  Reading
	Ordinals Ordinals
	// Datapath is which path connections take, where the kernel has one.
	Datapath Datapath
	// Policies says that NetworkPolicies are enforced in the kernel, or may be. What
	// goes through Envoy passes by them, so the path is DatapathKernel then, whatever
	// a Service asks for, unless this node's choice is DatapathEnvoy.
	Policies bool
	// Outside asks for ServiceView.Outside and HealthCheck where no datapath serves
	// them, for people. Names have no use for them (16384 in a namespace at most).
	Outside bool
	// Owners has Viewer.Own know whose node ports and addresses are, also where none of
	// these is asked for: for who keeps Services.
	Owners bool
}

// outside reports whether frontends besides those of ClusterIPs are asked for.
func (o Options) outside() bool { return o.Outside || o.Datapath != DatapathNone }

// Ordinals is which pods of a StatefulSetGrid have one.
type Ordinals uint8

const (
	// OrdinalsReady are those that are ready, as with all names; with the
	// Service's publishNotReadyAddresses Kubernetes calls every pod so.
	OrdinalsReady Ordinals = iota
	// OrdinalsAll are all, as in SuperEdge, for sets whose members must find
	// each other before they are ready.
	OrdinalsAll
)

// Reading is how several topologyKeys of one Service are read. With one key,
// which is all that a ServiceGrid writes, the readings are the same.
type Reading uint8

const (
	// Ordered makes each key a tier; the first that answers wins (KEP-536).
	Ordered Reading = iota
	// Union is SuperEdge's reading: several keys are one tier of their union,
	// "*" and anything unparsable mean no keys at all.
	Union
)

// String is the word that ParseReading reads.
func (r Reading) String() string {
	if r == Union {
		return "union"
	}
	return "ordered"
}

// ParseReading reads "ordered" or "union", as flags and the Corefile say it.
// Its error names the words; the caller puts the option's name before it.
func ParseReading(text string) (Reading, error) {
	for _, r := range []Reading{Ordered, Union} {
		if text == r.String() {
			return r, nil
		}
	}
	return Ordered, fmt.Errorf("%q is not known; use %s or %s", text, Ordered, Union)
}
