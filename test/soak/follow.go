package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/topology"
)

// follower follows what one agent has in force.
type follower struct {
	*source.Socket
	wake <-chan struct{}
}

// follow notes every version of every object that the API server has, and what
// each agent was told of it, until ctx ends. It returns once both are known.
func (s *Soak) follow(ctx context.Context) error {
	stop := context.WithoutCancel(ctx) // as long as the sandbox
	s.hearWords()
	kinds := []struct {
		client   rest.Interface
		resource string
		object   runtime.Object
	}{
		{s.c.Kube.CoreV1().RESTClient(), "services", &corev1.Service{}},
		{s.c.Kube.DiscoveryV1().RESTClient(), "endpointslices", &discoveryv1.EndpointSlice{}},
		{s.c.Kube.CoreV1().RESTClient(), "nodes", &corev1.Node{}},
		{s.c.Kube.CoreV1().RESTClient(), "pods", &corev1.Pod{}},
	}
	for _, k := range kinds {
		_, c := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: cache.NewListWatchFromClient(k.client, k.resource, metav1.NamespaceAll, fields.Everything()), ObjectType: k.object,
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { s.note(o, false) },
				UpdateFunc: func(_, o any) { s.note(o, false) },
				DeleteFunc: func(o any) {
					if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
						o = d.Obj
					}
					s.note(o, true)
				},
			},
		})
		go c.RunWithContext(stop)
		if _, err := wait.For(ctx, "the first list of "+k.resource, func() error {
			if !c.HasSynced() {
				return errors.New("it is not there")
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for _, node := range s.world.Nodes() {
		f := &follower{Socket: source.NewSocket(s.c.Nodes[node].Dir + "/feed.sock")}
		f.wake = f.Wake()
		s.sockets[node], s.told[node] = f, model.NewTold(node)
		if s.world.UnitOf(node) != onePath {
			s.told[node].Options.Datapath = topology.DatapathAuto
		}
	}
	for node, f := range s.sockets {
		go func() { _ = f.Run(stop) }()
		go s.hear(stop, node, f)
	}
	return nil
}

// note adds what an object is now to the history. It comes from the API
// server's answers to edits too, for a watch that was cut off misses versions;
// what is older than what was noted comes late, and is passed over.
func (s *Soak) note(o any, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now()
	m, err := meta.Accessor(o)
	if err != nil {
		return
	}
	name := nameOf(o, m)
	if v, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64); err == nil {
		if v < s.newest[name] || v == s.newest[name] && !gone {
			return
		}
		s.newest[name] = v
	}
	switch o := o.(type) {
	case *corev1.Service:
		key := topology.ObjectKey{Namespace: o.Namespace, Name: o.Name}
		if gone {
			s.history.SetService(at, key, nil)
			return
		}
		s.history.SetService(at, key, convert.Service(o))
	case *discoveryv1.EndpointSlice:
		key := topology.ObjectKey{Namespace: o.Namespace, Name: o.Name}
		if gone {
			s.history.SetSlice(at, key, nil)
		} else {
			s.history.SetSlice(at, key, convert.Slice(o))
		}
		s.cloudSays(at)
	case *corev1.Node:
		if gone {
			s.history.SetNode(at, o.Name, nil)
			return
		}
		s.history.SetNode(at, o.Name, convert.Node(&o.ObjectMeta))
	case *corev1.Pod:
		s.kubeletSays(at, o)
	}
}

// nameOf is what an object's newest version is kept by.
func nameOf(o any, m metav1.Object) string {
	return fmt.Sprintf("%T %s/%s", o, m.GetNamespace(), m.GetName())
}

// hear notes what an agent knows, whenever that changes.
func (s *Soak) hear(ctx context.Context, node string, f *follower) {
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		if snap, ok := f.Get(); ok {
			s.mu.Lock()
			s.told[node].Saw(s.history, time.Now(), snap)
			s.agentSays(time.Now(), node, snap)
			s.mu.Unlock()
		}
	}
}

// recalls notes what an agent that starts has from its disk: it may act on that
// for a moment, and nobody hears of it. That holds for what is not there, too: a
// Service that is not is new to it.
func (s *Soak) recalls(n *cluster.Node) {
	st, err := stateOf(n)
	if err != nil {
		return // it begins without
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[n.Name].Saw(s.history, time.Now(), st.Snapshot)
}

// upToDate reports what an agent has otherwise than the API server.
func (s *Soak) upToDate(_ context.Context, node string) error {
	snap, ok := s.sockets[node].Get()
	if !ok {
		return errors.New("its agent has said nothing yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.told[node].Saw(s.history, now, snap) // it may have heard before we did
	if err := model.Behind(s.history, snap); err != nil {
		return fmt.Errorf("its agent is behind: %w", err)
	}
	return nil
}
