package flows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// write makes Services and Nodes what they are to be: in the API server for kube-proxy,
// in a file of this name for an agent.
func (e *engine) write(ctx context.Context, name string, list []*service, moved bool) error {
	nodes, objects := e.objects(list, moved)
	if e.name != kubeProxy {
		return errors.Join(e.writeFile("nodes", nodes), e.writeFile(name, objects))
	}
	for _, o := range append(nodes, objects...) {
		if err := put(ctx, e.kube, o); err != nil {
			return err
		}
	}
	for _, s := range list {
		if s.gone {
			if err := remove(ctx, e.kube, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeFile puts a file in its place at once, so that no agent reads half of it.
func (e *engine) writeFile(name string, objects []runtime.Object) error {
	var text strings.Builder
	for _, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		text.WriteString("---\n" + string(data))
	}
	path := filepath.Join(e.manifests, name+".yaml")
	return errors.Join(os.WriteFile(path+".new", []byte(text.String()), 0o644), os.Rename(path+".new", path))
}

// put writes an object to the API server with its status, as controllers and
// kubelets would.
func put(ctx context.Context, kube kubernetes.Interface, o runtime.Object) error {
	switch o := o.(type) {
	case *corev1.Node:
		return putNode(ctx, kube.CoreV1().Nodes(), o)
	case *corev1.Service:
		return putService(ctx, kube.CoreV1().Services(o.Namespace), o)
	case *discoveryv1.EndpointSlice:
		return putSlice(ctx, kube.DiscoveryV1().EndpointSlices(o.Namespace), o)
	}
	return fmt.Errorf("%T is written by nobody here", o)
}

// writer is what an object of a kind is written by.
type writer[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
}

// putOne creates an object, or writes over the one that is there.
func putOne[T metav1.Object](ctx context.Context, to writer[T], o T) (T, error) {
	is, err := to.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return to.Create(ctx, o, metav1.CreateOptions{})
	case err != nil:
		return is, err
	}
	o.SetResourceVersion(is.GetResourceVersion())
	return to.Update(ctx, o, metav1.UpdateOptions{})
}

func putNode(ctx context.Context, to interface {
	writer[*corev1.Node]
	UpdateStatus(ctx context.Context, o *corev1.Node, options metav1.UpdateOptions) (*corev1.Node, error)
}, o *corev1.Node,
) error {
	status := o.Status
	made, err := putOne(ctx, to, o)
	if err != nil {
		return wrap("Node "+o.Name, err)
	}
	made.Status.Addresses = status.Addresses
	_, err = to.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return wrap("status of Node "+o.Name, err)
}

func putService(ctx context.Context, to interface {
	writer[*corev1.Service]
	UpdateStatus(ctx context.Context, o *corev1.Service, options metav1.UpdateOptions) (*corev1.Service, error)
}, o *corev1.Service,
) error {
	status := o.Status
	made, err := putOne(ctx, to, o)
	if err != nil {
		return wrap("Service "+o.Name, err)
	}
	made.Status.LoadBalancer = status.LoadBalancer
	_, err = to.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return wrap("status of Service "+o.Name, err)
}

func putSlice(ctx context.Context, to writer[*discoveryv1.EndpointSlice], o *discoveryv1.EndpointSlice) error {
	_, err := putOne(ctx, to, o)
	return wrap("EndpointSlice "+o.Name, err)
}

// remove deletes a Service with its slices.
func remove(ctx context.Context, kube kubernetes.Interface, s *service) error {
	errs := []error{kube.CoreV1().Services(namespace).Delete(ctx, s.name(), metav1.DeleteOptions{})}
	for _, slice := range s.slices(nil, nil) {
		errs = append(errs, kube.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, slice.Name, metav1.DeleteOptions{}))
	}
	for i, err := range errs {
		if apierrors.IsNotFound(err) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}
