package kubeproxy

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

var (
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the histories; one that failed is printed")
	rounds = flag.Int("rounds", 10_000, "changes that are compared")
)

// history is one history of objects, told to both.
type history struct {
	*world
	services map[string]*corev1.Service
	zone     string

	theirs map[corev1.IPFamily]*kubeProxy
	told   map[string]*discoveryv1.EndpointSlice // where addresses are shared, what they were told
	ours   *topology.Builder
	viewer *topology.Viewer
}

func newHistory(seed, number uint64, shared bool) *history {
	h := &history{
		world:    &world{rand.New(rand.NewPCG(seed, number)), map[string]*discoveryv1.EndpointSlice{}, shared},
		services: map[string]*corev1.Service{}, theirs: map[corev1.IPFamily]*kubeProxy{},
		ours: topology.NewBuilder(), viewer: topology.NewViewer(node, topology.Options{Datapath: topology.DatapathKernel}),
	}
	for _, f := range families {
		h.theirs[f] = newKubeProxy(f)
	}
	h.setNode()
	return h
}

// Where there are no keys, the same endpoints answer as with kube-proxy, at every
// frontend, for clients inside and outside; and what is dropped there is dropped,
// what is refused refused.
func TestLikeKubeProxy(t *testing.T) {
	t.Run("fixed", func(t *testing.T) { compare(t, 1, false, *rounds) })
	t.Run("random", func(t *testing.T) { compare(t, *seed, false, *rounds) })
}

// Where several endpoints have one address, kube-proxy has no rule; told of the one
// that ours takes, it says what we say.
func TestSharedAddresses(t *testing.T) {
	t.Run("fixed", func(t *testing.T) { compare(t, 1, true, *rounds/10) })
	t.Run("random", func(t *testing.T) { compare(t, *seed, true, *rounds/10) })
}

func compare(t *testing.T, seed uint64, shared bool, rounds int) {
	t.Helper()
	t.Logf("again: make kubeproxy-twin SEED=%d", seed)
	compared := map[string]int{}
	const long = 100
	for number := range uint64(rounds / long) {
		h := newHistory(seed, number, shared)
		for step := range long {
			what := h.step()
			theirs, ours := h.sync()
			for _, frontend := range slices.Sorted(maps.Keys(join(theirs, ours))) {
				if theirs[frontend] != ours[frontend] {
					t.Fatalf("seed %d, history %d, step %d (%s): %s\nkube-proxy %s\n  topology %s\n%s", seed, number, step, what,
						frontend, theirs[frontend], ours[frontend], h.state(frontend))
				}
				compared[kind(ours[frontend])]++
			}
		}
	}
	for _, k := range []string{"drop", "refuse", "serve"} { // or the histories hold nothing
		if compared[k] < rounds/100 {
			t.Errorf("of %d rounds only %d had to %s", rounds, compared[k], k)
		}
	}
	t.Log(compared)
}

func kind(answer string) string {
	switch {
	case strings.Contains(answer, "drop"):
		return "drop"
	case strings.Contains(answer, "refuse"):
		return "refuse"
	}
	return "serve"
}

func join(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// step changes one object, and tells both.
func (h *history) step() string {
	switch h.IntN(12) {
	case 0, 1, 2:
		return h.setService(h.service(h.IntN(services)))
	case 3:
		return h.deleteService(fmt.Sprint("s", h.IntN(services)))
	case 4:
		return h.deleteSlice(fmt.Sprint("x", h.IntN(3*services)))
	case 5:
		return h.setNode()
	}
	return h.setSlice(h.slice(h.IntN(3 * services)))
}

func (h *history) setService(s *corev1.Service) string {
	for _, k := range h.theirs {
		k.service(h.services[s.Name], s)
	}
	h.services[s.Name] = s
	h.ours.SetService(convert.Service(s))
	return "set service " + s.Name
}

func (h *history) deleteService(name string) string {
	for _, k := range h.theirs {
		k.service(h.services[name], nil)
	}
	delete(h.services, name)
	h.ours.DeleteService(topology.ObjectKey{Namespace: namespace, Name: name})
	return "delete service " + name
}

func (h *history) setSlice(s *discoveryv1.EndpointSlice) string {
	h.tellSlice(h.slices[s.Name], s)
	h.slices[s.Name] = s
	// As kube/feed watches them: headless ones only of grids.
	if slice := convert.Slice(s); slice != nil && watched(s.Labels) {
		h.ours.SetSlice(slice)
	} else {
		h.ours.DeleteSlice(topology.ObjectKey{Namespace: namespace, Name: s.Name})
	}
	return "set slice " + s.Name
}

func (h *history) deleteSlice(name string) string {
	h.tellSlice(h.slices[name], nil)
	delete(h.slices, name)
	h.ours.DeleteSlice(topology.ObjectKey{Namespace: namespace, Name: name})
	return "delete slice " + name
}

func (h *history) setNode() string {
	h.zone = pick(h.world, "z0", "z1", "")
	n := &topology.Node{Name: node, Labels: map[string]string{}}
	if h.zone != "" {
		n.Labels[corev1.LabelTopologyZone] = h.zone
	}
	h.ours.SetNode(n)
	return "zone " + h.zone
}

// sync has both decide.
func (h *history) sync() (theirs, ours map[string]string) {
	theirs, ours = map[string]string{}, map[string]string{}
	if h.shared {
		h.tellResolved()
	}
	for f, k := range h.theirs {
		k.sync()
		k.answers(theirs, h.zone)
		k.health(theirs, f)
	}
	for _, sv := range h.viewer.See(h.ours.Build()).Sorted() {
		tell(ours, sv)
	}
	return theirs, ours
}

// state is the object and its slices, for people.
func (h *history) state(frontend string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(frontend, namespace+"/"), " ")
	name, _, _ = strings.Cut(name, ":")
	text := fmt.Sprintf("zone %q; %+v\n", h.zone, convert.Service(h.services[name]))
	for _, key := range slices.Sorted(maps.Keys(h.slices)) {
		if s := h.slices[key]; s.Labels["kubernetes.io/service-name"] == name {
			text += fmt.Sprintf("%+v %v\n", convert.Slice(s), s.Labels)
		}
	}
	return text
}
