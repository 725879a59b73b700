package daemons

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/kube"
)

// api is an API server that has Leases and annotations of Nodes, and counts what is written.
type api struct {
	mu       sync.Mutex
	leases   map[string]*coordinationv1.Lease
	version  int
	uids     map[string]string // of Nodes
	verdicts map[string]string // annotation, by node
	cuts     map[string]bool   // by its evidence
	changed  chan struct{}     // a verdict did; of one
	wrote    struct {
		leases, took int            // took: by another holder than before
		verdicts     map[string]int // by node
		same         int            // of a verdict that stood there already: its evidence is renewed
	}
}

func newAPI() *api {
	a := &api{leases: map[string]*coordinationv1.Lease{}, uids: map[string]string{}, verdicts: map[string]string{}, cuts: map[string]bool{}, changed: make(chan struct{}, 1)}
	a.wrote.verdicts = map[string]int{}
	return a
}

var errDark = errors.New("no route to host")

// client is a node's, which reaches the API server while it has an uplink.
func (a *api) client(dark *atomic.Bool) *kube.Client {
	c := &fake.Clientset{}
	c.AddReactor("*", "*", func(testing.Action) (bool, runtime.Object, error) { return dark.Load(), nil, errDark })
	c.AddReactor("get", "leases", a.locked(func(do testing.Action) (runtime.Object, error) {
		name := do.(testing.GetAction).GetName()
		if l := a.leases[name]; l != nil {
			return l.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name)
	}))
	c.AddReactor("create", "leases", a.locked(func(do testing.Action) (runtime.Object, error) {
		return a.put(do.(testing.CreateAction).GetObject().(*coordinationv1.Lease), false)
	}))
	c.AddReactor("update", "leases", a.locked(func(do testing.Action) (runtime.Object, error) {
		return a.put(do.(testing.UpdateAction).GetObject().(*coordinationv1.Lease), true)
	}))
	c.AddReactor("patch", "nodes", a.locked(func(do testing.Action) (runtime.Object, error) {
		return a.patch(do.(testing.PatchAction))
	}))
	return &kube.Client{Typed: c, Leases: c.CoordinationV1()}
}

func (a *api) locked(f func(testing.Action) (runtime.Object, error)) testing.ReactionFunc {
	return func(do testing.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		o, err := f(do)
		return true, o, err
	}
}

func (a *api) put(l *coordinationv1.Lease, update bool) (runtime.Object, error) {
	of := schema.GroupResource{Resource: "leases"}
	was := a.leases[l.Name]
	switch {
	case !update && was != nil:
		return nil, apierrors.NewAlreadyExists(of, l.Name)
	case update && (was == nil || was.ResourceVersion != l.ResourceVersion):
		return nil, apierrors.NewConflict(of, l.Name, fmt.Errorf("it was written by another"))
	}
	l = l.DeepCopy()
	a.version++
	l.ResourceVersion = strconv.Itoa(a.version)
	a.leases[l.Name] = l
	a.wrote.leases++
	if was == nil || *was.Spec.HolderIdentity != *l.Spec.HolderIdentity {
		a.wrote.took++
	}
	return l.DeepCopy(), nil
}

func (a *api) patch(do testing.PatchAction) (runtime.Object, error) {
	var p struct {
		Metadata struct {
			UID         string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(do.GetPatch(), &p); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	name := do.GetName()
	if p.Metadata.UID != a.uids[name] {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, name, fmt.Errorf("another UID"))
	}
	verdict := p.Metadata.Annotations[names.NodeHealth]
	e, err := evidence.Parse(p.Metadata.Annotations[names.Evidence])
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	a.wrote.verdicts[name]++
	if a.verdicts[name] == verdict {
		a.wrote.same++
	}
	a.verdicts[name], a.cuts[name] = verdict, e.Cut
	select {
	case a.changed <- struct{}{}:
	default:
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// written is what was written since it was asked last.
type written struct {
	leases, took, verdicts, same int
	nodes                        []string // of verdicts
}

func (a *api) written() (w written) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w = written{leases: a.wrote.leases, took: a.wrote.took, same: a.wrote.same}
	for name, n := range a.wrote.verdicts {
		w.nodes, w.verdicts = append(w.nodes, name), w.verdicts+n
	}
	a.wrote.leases, a.wrote.took, a.wrote.same = 0, 0, 0
	clear(a.wrote.verdicts)
	return w
}

func (a *api) verdict(node string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.verdicts[node]
}

// holder is that of the one Lease.
func (a *api) holder() (name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.leases {
		name = *l.Spec.HolderIdentity
	}
	return name
}
