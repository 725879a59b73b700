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
	"github.com/gridmesh/gridmesh/kube/internal/lists"
)

// mirrorPage is how many objects a mirror lists at once, where an API server has no
// watch-lists: each is decoded whole before it is pruned, and may have a megabyte.
const mirrorPage = 20

// newInformer follows one kind. Client-go's own informers
// begin a watch again as fast as the one before was ended, and have all of a list
// before they prune any. Nor do they end a watch that stays open and says nothing.
func newInformer(client dynamic.Interface, k Kind, again *lists.Again, prune func(obj map[string]any)) cache.SharedIndexInformer {
	api := k.among(client)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			again.List(&o)
			k.narrow(&o)
			if o.Limit > 0 { // else all is asked for, as where a list took too long for its pages
				o.Limit = min(o.Limit, mirrorPage)
				if o.ResourceVersion == "0" { // of which there are no pages
					o.ResourceVersion = ""
				}
			}
			list, err := api.List(ctx, o)
			if err == nil {
				err = again.Page(o, list)
			}
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				prune(list.Items[i].Object)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			k.narrow(&o)
			return again.Watch(ctx, o, func(ctx context.Context) (apiwatch.Interface, error) {
				return kube.Answered(api.Watch(ctx, o))
			})
		},
	}
	return cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), &unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{ObjectDescription: k.Resource.String()})
}
