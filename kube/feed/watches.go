package feed

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// watch is one list and watch of the API server, and where its objects go.
type watch struct {
	name  string // in logs and metrics
	kind  runtime.Object
	api   cache.ListerWatcher
	store cache.ReflectorStore
}

// selection is which objects of a kind a watch is for.
type selection struct {
	name     string // of the watch
	selector string // of labels; "" for all
	// anchor is the "namespace/name" of an object that every whole list holds,
	// "" for none.
	anchor string
}

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

// watches is what a feed follows. Services that another proxy serves are left
// out; were their names of use, that would be one more entry: their metadata,
// by the opposite selector, and a resource that sets them as Foreign.
func (f *Feed) watches() []watch {
	const kubernetes = names.DefaultNamespace + "/" + names.KubernetesService
	typed := f.client.Typed
	slices := slices{since: f.now()}
	return []watch{
		newWatch(f, &corev1.Service{}, services{}, typed.CoreV1().Services(""),
			selection{name: "services", selector: "!" + names.ServiceProxyName, anchor: kubernetes}),
		newWatch(f, &discoveryv1.EndpointSlice{}, slices, typed.DiscoveryV1().EndpointSlices(""),
			selection{name: "endpointslices", selector: "!" + names.Headless + ",!" + names.ServiceProxyName, anchor: kubernetes}),
		newWatch(f, &discoveryv1.EndpointSlice{}, slices, typed.DiscoveryV1().EndpointSlices(""),
			selection{name: "grid-endpointslices", selector: names.Headless + "," + names.GridUniqKey}),
		newWatch(f, &metav1.PartialObjectMetadata{}, nodes{}, f.client.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes")),
			selection{name: "nodes"}),
		newWatch(f, &networkingv1.ServiceCIDR{}, cidrs{}, typed.NetworkingV1().ServiceCIDRs(),
			selection{name: "servicecidrs"}),
	}
}

func newWatch[T, L runtime.Object, V any](f *Feed, kind T, r resource[T, V], api listWatcher[L], s selection) watch {
	return watch{name: s.name, kind: kind, api: newRequests(f, api, s.selector), store: newStore(f, r, s)}
}
