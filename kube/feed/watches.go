package feed

import (
	stdslices "slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
	"github.com/gridmesh/gridmesh/topology"
)

// watch is one list and watch of the API server, and where its objects go.
type watch struct {
	name      string // in logs and metrics
	kind      runtime.Object
	api       cache.ListerWatcher
	store     cache.ReflectorStore
	again     *lists.Again
	endpoints bool // what it is for says which endpoints there are, and where
}

// selection is which objects of a kind a watch is for, by a selector of labels; "" for all.
type selection struct {
	lists.Selection
	selector string
}

// selected is a selection, of which whole lists have an anchor or none.
func selected(name, selector, anchor string, patience time.Duration) selection {
	return selection{lists.Selection{Name: name, Anchor: anchor, Patience: patience}, selector}
}

// patience is more than an API server takes to start, or to be replaced.
const patience = time.Minute

// resource is one kind of object: T as the API server sends it, V as the
// builder takes it. set and remove are called with the feed's lock held.
type resource[T runtime.Object, V any] interface {
	// convert returns all that is kept of an object.
	convert(obj T) V
	// weight is how much an object counts when a list is doubted.
	weight(obj T) int
	// set adds or replaces an object, remove takes one away. They report
	// whether anything changed.
	set(b *topology.Builder, key topology.ObjectKey, v V) bool
	remove(b *topology.Builder, key topology.ObjectKey) bool
}

// watches is what a feed follows. A label moves an object between the two
// watches that share its kind.
func (f *Feed) watches() []watch {
	const kubernetes = names.DefaultNamespace + "/" + names.KubernetesService
	typed, metadata := f.client.Typed, f.client.Metadata
	slices := slices{since: f.now()}
	ofServices, ofSlices := &shared[*topology.Service]{}, &shared[slice]{}
	return []watch{
		newWatch(f, &corev1.Service{}, services{}, typed.CoreV1().Services(""),
			selected("services", "!"+names.ServiceProxyName, kubernetes, 0), ofServices),
		newWatch(f, &metav1.PartialObjectMetadata{}, foreign{}, metadata.Resource(corev1.SchemeGroupVersion.WithResource("services")),
			selected("foreign-services", names.ServiceProxyName, "", 0), ofServices),
		newWatch(f, &discoveryv1.EndpointSlice{}, slices, typed.DiscoveryV1().EndpointSlices(""),
			selected("endpointslices", "!"+names.Headless+",!"+names.ServiceProxyName, kubernetes, patience), ofSlices),
		newWatch(f, &discoveryv1.EndpointSlice{}, slices, typed.DiscoveryV1().EndpointSlices(""),
			selected("grid-endpointslices", names.Headless+","+names.GridUniqKey, "", 0), ofSlices),
		newWatch(f, &metav1.PartialObjectMetadata{}, nodes{}, metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes")),
			selected("nodes", "", "", patience)),
		newWatch(f, &networkingv1.ServiceCIDR{}, cidrs{}, sinceKubernetes133(f.client),
			selected("servicecidrs", "", "", 0)),
	}
}

// others are the watches that say nothing about endpoints of what is served.
var others = []string{"foreign-services", "servicecidrs"}

func newWatch[T, L runtime.Object, V any](f *Feed, kind T, r resource[T, V], api listWatcher[L], s selection, with ...*shared[V]) watch {
	requests := newRequests(f, api, s)
	requests.again.Hurry(f.hurry)
	requests.again.Of(f.client)
	store := newStore(f, r, s, with...)
	store.lookAgain, store.news = requests.again.After, requests.again.News
	return watch{name: s.Name, kind: kind, api: requests.listWatch(), store: store, again: &requests.again, endpoints: !stdslices.Contains(others, s.Name)}
}
