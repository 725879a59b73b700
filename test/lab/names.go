package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// dbGrid is a database of its own in every unit, which clients know by the
// names of its pods.
const dbGrid = `
apiVersion: superedge.io/v1
kind: StatefulSetGrid
metadata: {name: db}
spec:
  gridUniqKey: unit
  template:
    replicas: 1
    serviceName: db-svc
    selector: {matchLabels: {app: db}}
    template:
      metadata: {labels: {app: db}}
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - {name: db, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: db}
spec:
  gridUniqKey: unit
  template: {clusterIP: None, selector: {app: db}, ports: [{name: main, port: 8080}]}
`

// The names that are asked for, below "default.svc.cluster.local".
const (
	ordinal  = "db-0.db-svc"
	headless = "db-svc"
	service  = shopService
)

// namesResolve starts the cloud's DNS and one on every node, and asks that of one in each
// unit for the same three names, from a pod.
func (d *demo) namesResolve(ctx context.Context) error {
	d.step("A StatefulSetGrid, and gridmesh-dns on every node: pods of two units ask for the same three names")
	if _, err := d.c.StartDNS(); err != nil {
		return err
	}
	for _, n := range d.c.Nodes {
		if err := n.StartDNS(netlab.CloudIP.String()); err != nil {
			return err
		}
	}
	d.names = map[string]map[string]string{}
	for _, node := range []string{"a-1", "b-1"} {
		pod := "db-" + d.c.Nodes[node].Unit.Name + "-0"
		var ip string
		if err := d.wait(ctx, "an address of "+pod, func() error {
			p, err := d.c.Kube.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
			if err == nil {
				if ip = p.Status.PodIP; ip == "" {
					err = fmt.Errorf("%s has no address yet", pod)
				}
			}
			return err
		}); err != nil {
			return err
		}
		d.names[node] = map[string]string{ordinal: ip, headless: ip, service: d.to.Addr().String()}
		if err := d.askNames(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// askNames asks for all names from a pod of a node, until they are what they
// ought to be, and prints them.
func (d *demo) askNames(ctx context.Context, node string) error {
	from, err := d.podOn(node)
	if err != nil {
		return err
	}
	n := d.c.Nodes[node]
	for _, name := range []string{ordinal, headless, service} {
		full, want := name+".default.svc.cluster.local.", d.names[node][name]
		if err := d.wait(ctx, name+" to resolve to "+want+" on "+node, func() error {
			if !n.DNS.Running() {
				return errors.New("its DNS has ended")
			}
			got, err := edge.Resolve(from.ns, edge.NodeDNS[0]+":53", full, dns.TypeA)
			if err == nil && !slices.Equal(got, []string{want}) {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		}); err != nil {
			return fmt.Errorf("%w\n%s", err, n.DNS.Log())
		}
		say("unit %s: %-12s is %s", n.Unit.Name, name, want)
	}
	return nil
}
