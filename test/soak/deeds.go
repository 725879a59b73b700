package soak

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// deeds are what the verbs of a script do.
var deeds = map[string]deed{
	"service":       edit((*Soak).setService),
	"unservice":     edit((*Soak).deleteService),
	"slice":         edit((*Soak).setSlice),
	"move":          edit((*Soak).moveSlice),
	"unslice":       edit((*Soak).deleteSlice),
	"ports":         edit((*Soak).setPorts),
	"type":          edit((*Soak).setType),
	"affinity":      edit((*Soak).setAffinity),
	"grid":          edit((*Soak).setGrid),
	"version":       edit((*Soak).setVersion),
	"rollout":       edit((*Soak).setRollout),
	"template":      edit((*Soak).setTemplate),
	"pause":         (*Soak).pauseGrid,
	"ungrid":        edit((*Soak).deleteGrid),
	"label":         (*Soak).relabel,
	"networkpolicy": (*Soak).networkPolicy,
	"kill":          (*Soak).kill,
	"restart":       (*Soak).restart,
	"stop":          (*Soak).stop,
	"controller":    (*Soak).hitController,
	"apiserver":     (*Soak).hitAPIServer,
	"pod":           (*Soak).killPod,
	"cut-uplink":    (*Soak).cutUplink,
	"darken":        (*Soak).cutUplink,
	"cut-node":      (*Soak).cutNode,
	"flush":         (*Soak).flush,
	"unrule":        (*Soak).unrule,
	"unroute":       (*Soak).unroute,
	"unchain":       (*Soak).unchain,
	"freeze":        (*Soak).freeze,
	"fill":          (*Soak).fill,
	"clock":         (*Soak).setClock,
}

// edit is a deed that nothing mends.
func edit(f func(s *Soak, ctx context.Context, args []string) error) deed {
	return func(s *Soak, ctx context.Context, args []string) (func() error, error) {
		if err := f(s, ctx, args); err != nil {
			return nil, &leftOut{err}
		}
		return nil, nil
	}
}

// noted adds what the API server answered to the history.
func (s *Soak) noted(o metav1.Object, err error) error {
	if err == nil {
		s.note(o, false)
	}
	return err
}

func (s *Soak) deleteService(ctx context.Context, args []string) error {
	err := gone(s.c.Kube.CoreV1().Services("default").Delete(ctx, args[0], metav1.DeleteOptions{}))
	if err == nil {
		s.note(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: args[0]}}, true)
	}
	return err
}

// gone passes over what was not there.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// setSlice writes a slice whose endpoints are the steady app's pods, or say so.
func (s *Soak) setSlice(ctx context.Context, args []string) error {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: args[0], Labels: map[string]string{discoveryv1.LabelServiceName: script.ServiceOf(args[0]), discoveryv1.LabelManagedBy: "soak"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       slicePorts(),
	}
	for _, e := range script.Endpoints(args[1]) {
		addr := s.pods[e.Node].ip
		if e.Absent {
			b := addr.As4()
			b[3] = 250
			addr = netip.AddrFrom4(b)
		}
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{addr.String()}, NodeName: ptr.To(e.Node),
			Conditions: discoveryv1.EndpointConditions{
				Ready: ptr.To(!e.Unready && !e.Terminating), Serving: ptr.To(!e.Unready), Terminating: ptr.To(e.Terminating),
			},
		})
	}
	list := s.c.Kube.DiscoveryV1().EndpointSlices("default")
	now, err := list.Get(ctx, args[0], metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		now, err = list.Create(ctx, out, metav1.CreateOptions{})
	case err == nil:
		out.ResourceVersion, out.Labels = now.ResourceVersion, now.Labels
		now, err = list.Update(ctx, out, metav1.UpdateOptions{})
	}
	return s.noted(now, err)
}

// moveSlice gives a slice to another Service.
func (s *Soak) moveSlice(ctx context.Context, args []string) error {
	list := s.c.Kube.DiscoveryV1().EndpointSlices("default")
	now, err := list.Get(ctx, args[0], metav1.GetOptions{})
	if err != nil {
		return gone(err)
	}
	now.Labels[discoveryv1.LabelServiceName] = args[1]
	now, err = list.Update(ctx, now, metav1.UpdateOptions{})
	return s.noted(now, err)
}

func (s *Soak) deleteSlice(ctx context.Context, args []string) error {
	err := gone(s.c.Kube.DiscoveryV1().EndpointSlices("default").Delete(ctx, args[0], metav1.DeleteOptions{}))
	if err == nil {
		s.note(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: args[0]}}, true)
	}
	return err
}

// label gives a node a label, or takes it away: "none".
func (s *Soak) label(ctx context.Context, node, key, value string) error {
	text := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	if value == "none" {
		text = fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key)
	}
	now, err := s.c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	return s.noted(now, err)
}

// relabel gives a node to another unit for a time.
func (s *Soak) relabel(ctx context.Context, args []string) (func() error, error) {
	node, key, value := args[0], args[1], args[2]
	target := "label " + key + " of " + node
	if !s.take(target) {
		return nil, errBusy
	}
	ends := func() {}
	if key == "unit" { // the steady app goes by it
		ends = s.trouble(model.Broken, append(s.unit(value), s.unit(s.world.UnitOf(node))...)...)
	}
	if err := s.label(ctx, node, key, value); err != nil {
		ends()
		s.free(target)
		return nil, &leftOut{err}
	}
	return s.insist(ctx, func() error { return s.label(ctx, node, key, s.world.UnitOf(node)) }, func() { ends(); s.free(target) }), nil
}

// unit are the nodes that stand in a unit.
func (s *Soak) unit(name string) []string {
	for _, u := range s.world.Units {
		if u.Name == name {
			return u.Nodes
		}
	}
	return nil
}

// insist is a mending edit: it is tried until the API server takes it, and
// comes later where that is away by a step.
func (s *Soak) insist(ctx context.Context, f func() error, done func()) func() error {
	return func() error {
		if s.busy[cloud] {
			return errBusy
		}
		defer done()
		ctx, cancel := context.WithTimeout(ctx, wait.Patience)
		defer cancel()
		return wait.Until(ctx, f)
	}
}
