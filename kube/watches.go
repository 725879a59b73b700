package kube

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

// watchOf is one watch and what its objects do to the builder.
type watchOf struct {
	name string
	lw   cache.ListerWatcher
	kind runtime.Object
	// anchor is a name that every whole list holds, "" for none.
	anchor string
	trim   func(obj any)
	set    func(f *Feed, obj any) func(b *topology.Builder) bool
	// gone deletes by "namespace/name".
	gone func(f *Feed, key topology.ObjectKey) func(b *topology.Builder) bool
	// weight is how much an object counts when a list is doubted.
	weight func(obj any) int
}

func (f *Feed) watches() []*watchOf {
	kube := f.client.kube
	slices := func(name, selector, anchor string) *watchOf {
		return &watchOf{
			name: name, kind: &discoveryv1.EndpointSlice{}, anchor: anchor, set: setSlice, gone: deleteSlice, trim: trimSlice,
			weight: func(obj any) int { return len(obj.(*discoveryv1.EndpointSlice).Endpoints) },
			lw: f.listWatch(selector, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return kube.DiscoveryV1().EndpointSlices("").List(ctx, o)
			}, kube.DiscoveryV1().EndpointSlices("").Watch),
		}
	}
	nodes := f.client.meta.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	return []*watchOf{
		{
			name: "services", kind: &corev1.Service{}, set: setService, gone: deleteService, trim: trimService,
			anchor: names.DefaultNamespace + "/" + names.KubernetesService,
			weight: func(any) int { return 1 },
			lw: f.listWatch("!"+names.ServiceProxyName, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return kube.CoreV1().Services("").List(ctx, o)
			}, kube.CoreV1().Services("").Watch),
		},
		slices("endpointslices", "!"+names.Headless+",!"+names.ServiceProxyName, names.DefaultNamespace+"/"+names.KubernetesService),
		slices("grid-endpointslices", names.Headless+","+names.GridUniqKey, ""),
		{
			// Without its nodes every closed Service is dark.
			name: "nodes", kind: &metav1.PartialObjectMetadata{}, set: setNode, gone: deleteNode, trim: trimNode,
			weight: func(any) int { return 1 },
			lw: f.listWatch("", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return nodes.List(ctx, o)
			}, nodes.Watch),
		},
		{
			name: "servicecidrs", kind: &networkingv1.ServiceCIDR{}, set: setCIDR, gone: deleteCIDR, trim: func(any) {},
			weight: func(any) int { return 1 },
			lw: f.listWatch("", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return kube.NetworkingV1().ServiceCIDRs().List(ctx, o)
			}, kube.NetworkingV1().ServiceCIDRs().Watch),
		},
	}
}

func (f *Feed) listWatch(selector string,
	list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error),
) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			obj, err := list(ctx, o)
			f.note(err)
			return obj, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = selector
			w, err := watch(ctx, o)
			f.note(err)
			return w, err
		},
	}
}

// The trims drop what conversion does not read, before a list of thousands
// piles up.
func trimService(obj any) {
	s := obj.(*corev1.Service)
	s.ManagedFields, s.OwnerReferences, s.Finalizers, s.Spec.Selector = nil, nil, nil, nil
	s.Status = corev1.ServiceStatus{}
	if keys, ok := s.Annotations[names.TopologyKeys]; ok {
		s.Annotations = map[string]string{names.TopologyKeys: keys}
	} else {
		s.Annotations = nil
	}
}

func trimSlice(obj any) {
	s := obj.(*discoveryv1.EndpointSlice)
	s.ManagedFields, s.OwnerReferences = nil, nil
	if at, ok := s.Annotations[corev1.EndpointsLastChangeTriggerTime]; ok {
		s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at}
	} else {
		s.Annotations = nil
	}
	for i := range s.Endpoints {
		s.Endpoints[i].TargetRef, s.Endpoints[i].DeprecatedTopology = nil, nil
	}
}

func trimNode(obj any) {
	n := obj.(*metav1.PartialObjectMetadata)
	n.ManagedFields, n.Annotations, n.OwnerReferences = nil, nil, nil
}

func setService(_ *Feed, obj any) func(*topology.Builder) bool {
	s := convert.Service(obj.(*corev1.Service))
	return func(b *topology.Builder) bool { return b.SetService(s) }
}

func deleteService(_ *Feed, key topology.ObjectKey) func(*topology.Builder) bool {
	return func(b *topology.Builder) bool { return b.DeleteService(key) }
}

func setSlice(f *Feed, obj any) func(*topology.Builder) bool {
	s := obj.(*discoveryv1.EndpointSlice)
	key := topology.ObjectKey{Namespace: s.Namespace, Name: s.Name}
	if out := convert.Slice(s); out != nil {
		at := s.Annotations[corev1.EndpointsLastChangeTriggerTime]
		return func(b *topology.Builder) bool {
			changed := b.SetSlice(out)
			if changed {
				f.triggers.add(at)
			}
			return changed
		}
	}
	return func(b *topology.Builder) bool { return b.DeleteSlice(key) }
}

func deleteSlice(_ *Feed, key topology.ObjectKey) func(*topology.Builder) bool {
	return func(b *topology.Builder) bool { return b.DeleteSlice(key) }
}

func setNode(_ *Feed, obj any) func(*topology.Builder) bool {
	n := convert.Node(&obj.(*metav1.PartialObjectMetadata).ObjectMeta)
	return func(b *topology.Builder) bool { return b.SetNode(n) }
}

func deleteNode(_ *Feed, key topology.ObjectKey) func(*topology.Builder) bool {
	return func(b *topology.Builder) bool { return b.DeleteNode(key.Name) }
}

func setCIDR(f *Feed, obj any) func(*topology.Builder) bool {
	c := obj.(*networkingv1.ServiceCIDR)
	return func(b *topology.Builder) bool {
		f.cidrs[c.Name] = convert.ServiceCIDR(c)
		return f.setCIDRs(b)
	}
}

func deleteCIDR(f *Feed, key topology.ObjectKey) func(*topology.Builder) bool {
	return func(b *topology.Builder) bool {
		delete(f.cidrs, key.Name)
		return f.setCIDRs(b)
	}
}

func (f *Feed) setCIDRs(b *topology.Builder) bool {
	var all []netip.Prefix
	for _, list := range f.cidrs {
		all = append(all, list...)
	}
	return b.SetServiceCIDRs(all)
}
