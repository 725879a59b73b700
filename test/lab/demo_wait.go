package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What the demonstration reads it waits for: everything comes when it does.

const (
	shopService = "shop-svc"
	appPort     = 8080
	podsEach    = 2 // of the shop, in every unit
)

// pod is one of the shop's.
type pod struct {
	name, uid, node, unit string
	ip                    netip.Addr
	ns                    *netlab.NS
}

// wait waits for what is named. An error also tells which programs have
// ended, for that is why most things do not come.
func (d *demo) wait(ctx context.Context, what string, f func() error) error {
	took, err := wait.For(ctx, what, f)
	if err != nil {
		return errors.Join(err, d.ended())
	}
	if took > 10*time.Second {
		say("waited %s for %s", took.Round(time.Second), what)
	}
	return nil
}

// ended names the programs that should run and do not.
func (d *demo) ended() error {
	var list []*edge.Process
	for _, n := range d.c.Nodes {
		list = append(list, n.Kubelet, n.Agent, n.Envoy, n.DNS)
	}
	var errs []error
	for _, p := range list {
		if p != nil && !p.Running() {
			errs = append(errs, fmt.Errorf("%s has ended:\n%s", p.Name, p.Log()))
		}
	}
	if state := d.controller.state(time.Now()); state != "runs" {
		errs = append(errs, errors.New("the controller "+state))
	}
	return errors.Join(errs...)
}

// kubectl runs kubectl for its success.
func (d *demo) kubectl(args ...string) error {
	if out, err := d.c.Kubectl(args...); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", args[0], err, strings.TrimSpace(out))
	}
	return nil
}

// learn waits until the shop is there in every unit, as far as the API server
// knows, and notes where it is.
func (d *demo) learn(ctx context.Context, units ...string) error {
	if err := d.wait(ctx, fmt.Sprintf("%d ready pods of the shop in each of the units %s, and their Service with as many endpoints", podsEach, strings.Join(units, ", ")), func() error {
		return d.look(ctx, units)
	}); err != nil {
		return err
	}
	say("%d pods are ready; the Service is %s", len(d.pods), d.to)
	return nil
}

func (d *demo) look(ctx context.Context, units []string) error {
	n := podsEach * len(units)
	list, err := d.c.ReadyPods(ctx, "default", "app=shop", n)
	if err != nil {
		return err
	}
	svc, err := d.c.Kube.CoreV1().Services("default").Get(ctx, shopService, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(svc.Spec.ClusterIP)
	if err != nil {
		return fmt.Errorf("the ClusterIP of %s: %w", shopService, err)
	}
	endpoints, err := d.endpoints(ctx)
	if err != nil {
		return err
	}
	pods := map[string]*pod{}
	in := map[string]int{}
	for i := range list {
		p, err := d.pod(&list[i])
		if err != nil {
			return err
		}
		if !slices.Contains(endpoints, p.ip.String()) {
			return fmt.Errorf("%s at %s is no ready endpoint of %s yet, which has %v", p.name, p.ip, shopService, endpoints)
		}
		pods[p.name] = p
		in[p.unit]++
	}
	for _, unit := range units {
		if in[unit] != podsEach || len(endpoints) != n {
			return fmt.Errorf("pods by unit: %v; endpoints: %v", in, endpoints)
		}
	}
	d.to, d.pods = netip.AddrPortFrom(ip, uint16(svc.Spec.Ports[0].Port)), pods
	return nil
}

func (d *demo) pod(p *corev1.Pod) (*pod, error) {
	if known := d.pods[p.Name]; known != nil && known.uid == string(p.UID) {
		return known, nil
	}
	ip, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil {
		return nil, fmt.Errorf("the address of %s: %w", p.Name, err)
	}
	ns, err := netlab.OpenNS("pod-" + string(p.UID))
	if err != nil {
		return nil, err
	}
	return &pod{name: p.Name, uid: string(p.UID), node: p.Spec.NodeName, unit: d.c.Nodes[p.Spec.NodeName].Unit.Name, ip: ip, ns: ns}, nil
}

// endpoints are the addresses of the Service that the API server has as ready.
func (d *demo) endpoints(ctx context.Context) (addrs []string, err error) {
	list, err := d.c.Kube.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + shopService})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				addrs = append(addrs, e.Addresses...)
			}
		}
	}
	return addrs, nil
}

// settle waits until the Envoys of the nodes have the shop's pods of their
// own unit as endpoints, all of them, and one answers.
func (d *demo) settle(ctx context.Context, nodes ...string) error {
	return d.wait(ctx, "Envoy to serve the shop on "+strings.Join(nodes, ", "), func() error {
		for _, name := range nodes {
			n := d.c.Nodes[name]
			clusters, err := n.Admin("/clusters")
			if err != nil {
				return err
			}
			for _, p := range d.pods {
				if has := strings.Contains(clusters, fmt.Sprintf("%s::%s::", d.to, netip.AddrPortFrom(p.ip, appPort))); p.unit == n.Unit.Name && !has {
					return fmt.Errorf("the Envoy of %s does not have %s of its unit yet", name, p.name)
				}
			}
			if _, err := edge.Ask(n.NS, "tcp", d.to, requestTimeout); err != nil {
				return fmt.Errorf("from %s: %w", name, err)
			}
		}
		return nil
	})
}

// kept waits until a node could start again without a cloud: what agent and
// DNS have on disk has the unit's endpoints.
func (d *demo) kept(ctx context.Context, node string) error {
	n := d.c.Nodes[node]
	var shop []netip.Addr
	for _, p := range d.pods {
		if p.unit == n.Unit.Name {
			shop = append(shop, p.ip)
		}
	}
	db, err := netip.ParseAddr(d.names[node][headless])
	if err != nil {
		return err
	}
	return d.wait(ctx, "agent and DNS of "+node+" to write the last good state", func() error {
		return errors.Join(
			n.Kept(edge.AgentState, "default/"+shopService, shop...),
			n.Kept(edge.DNSState, "default/"+shopService, shop...), n.Kept(edge.DNSState, "default/"+headless, db))
	})
}

// mark is a Service that nobody uses, with an endpoint on every node.
const mark = `
apiVersion: v1
kind: Service
metadata: {name: ` + markName + `, annotations: {topologyKeys: '["unit"]'}}
spec: {clusterIP: %s, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ` + markName + `, labels: {kubernetes.io/service-name: ` + markName + `}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [%s]
`

const markName, markIP = "mark", "10.96.0.200"

// caughtUp waits until the nodes have seen all changes of endpoints that the
// API server has had until now: an agent takes them in order, so one that is
// made now comes last.
func (d *demo) caughtUp(ctx context.Context, nodes ...string) error {
	var ends []string
	for _, name := range nodes {
		ends = append(ends, fmt.Sprintf("{addresses: [%q], nodeName: %s}", d.c.Nodes[name].IP, name))
	}
	if err := d.wait(ctx, "the API server to take a mark", func() error { return d.c.Apply(fmt.Sprintf(mark, markIP, strings.Join(ends, ", "))) }); err != nil {
		return err
	}
	return d.wait(ctx, "every agent to catch up with the API server", func() error {
		for _, name := range nodes {
			clusters, err := d.c.Nodes[name].Admin("/clusters")
			if err != nil {
				return err
			}
			if !strings.Contains(clusters, markIP+":80::") {
				return fmt.Errorf("%s has not", name)
			}
		}
		return nil
	})
}
