package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	sockets "github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// status says of every node what runs there and what its agent knows, and
// which lines are cut.
func (c *call) status() error {
	nodes := c.c.Lab.Nodes()
	states := make([]string, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { states[i] = state(c.ctx, c.c.Nodes[n.Name], time.Now()) })
	}
	wg.Wait()
	t := tabwriter.NewWriter(c.files[1], 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tUNIT\tPODS\tADDRESS\tPOD CIDR\tKUBELET\tPROXY\tDNS\tSTATE")
	for i, n := range nodes {
		node := c.c.Nodes[n.Name]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			n.Name, n.Unit.Name, n.Network, n.IP, n.PodCIDR, kubelet(node), proxy(node), runs(node, "dns"), states[i])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if c.keeper != nil {
		fmt.Fprintln(c.files[1], "controller:", c.keeper.state(time.Now()))
	}
	cuts := "nothing"
	if list := c.c.Lab.Cuts(); len(list) > 0 {
		cuts = strings.Join(list, ", ")
	}
	fmt.Fprintln(c.files[1], "cut:", cuts)
	return nil
}

func kubelet(n *cluster.Node) string {
	switch on := n.Kubelet.Running(); {
	case n.Real && on:
		return "real"
	case n.Real:
		return "off"
	case on:
		return "stand-in"
	}
	return "stopped"
}

func proxy(n *cluster.Node) string {
	if n.KubeProxy != nil {
		return "kube-proxy " + alive(n.KubeProxy)
	}
	agent, envoy := runs(n, "agent"), runs(n, "envoy")
	if agent == none && envoy == none {
		return none
	}
	return fmt.Sprintf("agent %s, envoy %s", agent, envoy)
}

// none is what stands for a program that a node does not have.
const none = "-"

// runs says whether a program of gridmesh's runs on a node: as a process of the
// lab's own or, on a real node, in a pod.
func runs(n *cluster.Node, name string) string {
	if n.Real {
		pids, err := n.PodProcesses("", inPod[name])
		switch {
		case err != nil:
			return "unknown: " + err.Error()
		case len(pids) == 0:
			return none
		}
		return "runs"
	}
	p := process(n, name)
	if p == nil {
		return none
	}
	return alive(p)
}

func alive(p *edge.Process) string {
	if p.Running() {
		return "runs"
	}
	return "stopped"
}

// statePatience is how long an agent may take to say what it knows.
const statePatience = 2 * time.Second

// state is from where a node's agent has what it knows, when its last contact with
// the cloud, and how old is what it would start again from.
func state(ctx context.Context, n *cluster.Node, now time.Time) string {
	var facts []string
	ctx, cancel := context.WithTimeout(ctx, statePatience)
	defer cancel()
	var report struct {
		Source    string `json:"source"`
		APIServer *struct {
			LastContact time.Time `json:"lastContact"`
		} `json:"apiServer"`
		Held *struct {
			Endpoints int `json:"endpoints"`
		} `json:"held"`
	}
	if err := sockets.AskUnix(ctx, n.AgentSocket(), "/status", &report); err == nil && report.Source != "" {
		facts = append(facts, report.Source)
		if api := report.APIServer; api != nil && !api.LastContact.IsZero() {
			facts = append(facts, "last contact "+ago(api.LastContact, now))
		}
		if h := report.Held; h != nil {
			facts = append(facts, fmt.Sprintf("%d endpoints held", h.Endpoints))
		}
	}
	if f, err := os.Stat(n.StateFile()); err == nil {
		facts = append(facts, "on disk since "+ago(f.ModTime(), now))
	}
	if len(facts) == 0 {
		return none
	}
	return strings.Join(facts, ", ")
}

func ago(at, now time.Time) string {
	return max(0, now.Sub(at)).Round(time.Second).String() + " ago"
}
