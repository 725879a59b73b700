package grid

import (
	"context"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube/objects"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	// keysAgain is how often a mistake that stands is told of anew: the API server
	// keeps an Event for an hour.
	keysAgain = 30 * time.Minute
	// keysMost bounds how many Services are told of within keysEvery, so that a
	// tenant with thousands costs no more than that.
	keysMost  = 100
	keysEvery = 10 * time.Second
	// longestWord is what is kept of an annotation that is one of a few words.
	longestWord = 64
)

// Reasons of the Events.
const (
	reasonKeys        = "TopologyKeys"
	reasonAnnotations = "Annotations" // of others, as a mistyped name
)

const kindService = "Service"

// ServiceKinds are all Services, as a mirror for Keys watches them.
func ServiceKinds() []objects.Kind {
	return []objects.Kind{{Kind: kindService, Resource: schema.GroupVersionResource{Version: "v1", Resource: "services"}}}
}

// PruneService drops from a Service in place what Keys does not read. Of most
// the name is left.
func PruneService(obj map[string]any) {
	m := meta(obj)
	name, namespace, uid, version := m.GetName(), m.GetNamespace(), m.GetUID(), m.GetResourceVersion()
	annotations := map[string]string{}
	for key, value := range convert.MeantForTopologyKeys(m.GetAnnotations()) {
		annotations[key] = topology.KeptKeys(value)
	}
	for key, value := range convert.MeantForGridmesh(m.GetAnnotations()) {
		if _, has := annotations[key]; !has {
			annotations[key] = value[:min(len(value), longestWord)]
		}
	}
	labels := map[string]string{}
	for _, key := range []string{names.ServiceProxyName, names.Headless, names.GridUniqKey} {
		if value, has := m.GetLabels()[key]; has {
			labels[key] = value
		}
	}
	spec, _ := obj["spec"].(map[string]any)
	kept := map[string]any{}
	if len(annotations) > 0 {
		for _, key := range []string{"type", "clusterIP"} {
			if v, ok := spec[key]; ok {
				kept[key] = v
			}
		}
	}
	obj["metadata"], obj["spec"] = map[string]any{}, kept
	delete(obj, "status")
	m.SetName(name)
	m.SetNamespace(namespace)
	m.SetUID(uid)
	m.SetResourceVersion(version)
	if len(annotations) > 0 {
		m.SetAnnotations(annotations)
		m.SetLabels(labels)
	}
}

// Keys tells the owners of Services, by Events, of an annotation topologyKeys
// that is a mistake, and of others below gridmesh.io/ that are: on the nodes it is a
// problem that they may never look at, and who applies by kubectl sees no other.
type Keys struct {
	mirror Mirror
	events Events
	log    *slog.Logger
	faults map[plan.Ref]fault
	told   []time.Time // within keysEvery
}

// fault is what is wrong with a Service's keys.
type fault struct {
	uid    types.UID
	reason string
	text   string
	told   time.Time // zero: not yet
}

// NewKeys returns one that follows a mirror of ServiceKinds on Run.
func NewKeys(m Mirror, e Events, log *slog.Logger) *Keys {
	return &Keys{mirror: m, events: e, log: log, faults: map[plan.Ref]fault{}}
}

// Run tells until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.mirror.Wake():
			k.learn()
		case <-tick.C:
		}
		k.tell(time.Now())
	}
}

func (k *Keys) learn() {
	k.mirror.Changes(func(kind, namespace, name string) {
		if kind != kindService {
			return
		}
		ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
		next := faultOf(k.mirror.Get(kind, namespace, name))
		switch was, known := k.faults[ref]; {
		case next.text == "":
			delete(k.faults, ref)
		case !known || was.uid != next.uid || was.text != next.text:
			k.faults[ref] = next
		}
	})
}

// tell tells of what is new, and of what was told long ago.
func (k *Keys) tell(now time.Time) {
	for len(k.told) > 0 && now.Sub(k.told[0]) >= keysEvery {
		k.told = k.told[1:]
	}
	for ref, f := range k.faults {
		if len(k.told) >= keysMost {
			return
		}
		if !f.told.IsZero() && now.Sub(f.told) < keysAgain {
			continue
		}
		if f.told.IsZero() {
			k.log.Info("an annotation of a Service is a mistake", obs.KeyService, ref.Namespace+"/"+ref.Name, obs.KeyProblem, f.text)
		}
		f.told = now
		k.faults[ref] = f
		k.told = append(k.told, now)
		about := corev1.ObjectReference{APIVersion: "v1", Kind: kindService, Namespace: ref.Namespace, Name: ref.Name, UID: f.uid}
		k.events.Event(about, corev1.EventTypeWarning, f.reason, f.text)
	}
}

// faultOf says what is wrong, in the words that every node has for it.
func faultOf(obj map[string]any) fault {
	if obj == nil {
		return fault{}
	}
	m := meta(obj)
	spec, _ := obj["spec"].(map[string]any)
	kind, _ := spec["type"].(string)
	ip, _ := spec["clusterIP"].(string)
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(), Labels: m.GetLabels(), Annotations: m.GetAnnotations()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceType(kind), ClusterIP: ip},
	}
	b := topology.NewBuilder()
	b.SetService(convert.Service(s))
	f := fault{uid: m.GetUID(), reason: reasonAnnotations}
	var texts []string
	for _, p := range topology.See(b.Build(), "", topology.Options{}).AllProblems() {
		name, of := strings.CutPrefix(strings.TrimSuffix(p.Field, "]"), "metadata.annotations[")
		if !of {
			continue
		}
		if texts = append(texts, p.Field+": "+p.Text); convert.MeansTopologyKeys(name) {
			f.reason = reasonKeys
		}
	}
	f.text = strings.Join(texts, "; ")
	return f
}
