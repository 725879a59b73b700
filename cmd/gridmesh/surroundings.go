package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// surroundings are what a snapshot leaves out, for it routes nothing, and a
// trace needs.
type surroundings struct {
	podCIDRs []netip.Prefix   // of the node
	services []corev1.Service // as they are written
	whole    bool             // the services are known
}

// surroundings reads them from where the snapshot comes from. What cannot be
// told is missing, with a note: a trace goes on without.
func (in *input) surroundings(ctx context.Context) surroundings {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var s surroundings
	var err error
	switch {
	case len(in.files) > 0:
		err = s.fromFiles(in.files, in.node)
	case in.kubeconfig != "":
		err = s.fromCluster(ctx, in)
	default:
		s.podCIDRs, err = agentPodCIDRs(ctx, filepath.Join(filepath.Dir(in.socket), "agent.sock"))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "note: %v; give --pod-cidr where --from is a pod of this node\n", err)
	}
	return s
}

func (s *surroundings) fromFiles(files []string, node string) error {
	objects, _, err := source.ReadObjects(files...)
	if err != nil {
		return err
	}
	s.whole = true
	for _, obj := range objects {
		switch obj["kind"] {
		case "Node":
			var n corev1.Node
			if runtime.DefaultUnstructuredConverter.FromUnstructured(obj, &n) == nil && n.Name == node {
				s.podCIDRs = prefixes(n.Spec.PodCIDRs, n.Spec.PodCIDR)
			}
		case "Service":
			var svc corev1.Service
			if runtime.DefaultUnstructuredConverter.FromUnstructured(obj, &svc) == nil {
				svc.Namespace = orDefault(svc.Namespace)
				s.services = append(s.services, svc)
			}
		}
	}
	return nil
}

func orDefault(namespace string) string {
	if namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

// prefixes reads podCIDRs, or the older field. What is none is left out: the
// API server admits no other.
func prefixes(texts []string, older string) (list []netip.Prefix) {
	if len(texts) == 0 && older != "" {
		texts = []string{older}
	}
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}

func (s *surroundings) fromCluster(ctx context.Context, in *input) error {
	client, err := in.connect()
	if err != nil {
		return err
	}
	if s.podCIDRs, err = client.PodCIDRs(ctx, in.node); err != nil {
		return err
	}
	list, err := client.Typed.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	s.services, s.whole = list.Items, true
	return nil
}

// agentPodCIDRs asks the agent's status.
func agentPodCIDRs(ctx context.Context, socket string) ([]netip.Prefix, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the agent for its pod CIDRs: %w", err)
	}
	defer resp.Body.Close()
	var status struct {
		PodCIDRs []netip.Prefix `json:"podCIDRs"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return nil, fmt.Errorf("read the agent's status: %w", err)
	}
	return status.PodCIDRs, nil
}

// unserved says which address of a Service it is that somebody dials and
// gridmesh does not serve, "" for none.
func (s *surroundings) unserved(to topology.Frontend) string {
	for i := range s.services {
		svc := &s.services[i]
		for _, p := range svc.Spec.Ports {
			if !strings.EqualFold(string(p.Protocol), to.Protocol.String()) && (p.Protocol != "" || to.Protocol != topology.TCP) {
				continue
			}
			name := fmt.Sprintf("service %s/%s", svc.Namespace, svc.Name)
			switch {
			case p.Port == int32(to.Port) && hasIP(svc.Spec.ExternalIPs, to.Addr):
				return fmt.Sprintf("%s is an external address of %s", to.Addr, name)
			case p.Port == int32(to.Port) && hasIP(balancers(svc), to.Addr):
				return fmt.Sprintf("%s is the load balancer's address of %s", to.Addr, name)
			case p.NodePort == int32(to.Port):
				return fmt.Sprintf("%d is the node port of %s, where %s is a node's", to.Port, name, to.Addr)
			}
		}
	}
	return ""
}

func balancers(svc *corev1.Service) (list []string) {
	for _, in := range svc.Status.LoadBalancer.Ingress {
		list = append(list, in.IP)
	}
	return list
}

func hasIP(texts []string, ip netip.Addr) bool {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Unmap() == ip.Unmap() {
			return true
		}
	}
	return false
}
