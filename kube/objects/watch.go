package objects

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/kube"
)

// newInformer follows one kind, in all namespaces. Client-go's own informers
// begin a watch again as fast as the one before was ended.
func newInformer(client dynamic.Interface, k Kind) cache.SharedIndexInformer {
	api := client.Resource(k.Resource)
	var pace kube.Pace
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = k.Selector
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = k.Selector
			if err := pace.Wait(ctx); err != nil {
				return nil, err
			}
			w, err := api.Watch(ctx, o)
			if err == nil {
				pace.Opened()
			}
			return w, err
		},
	}
	return cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), &unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{ObjectDescription: k.Resource.String()})
}
