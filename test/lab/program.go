package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// inPod are the names of the processes of deploy/.
var inPod = map[string]string{"agent": "gridmesh-agent", "envoy": "envoy", "dns": "gridmesh-dns"}

// process is a program of a node that the lab itself started, or nil.
func process(n *cluster.Node, name string) *edge.Process {
	return map[string]*edge.Process{"agent": n.Agent, "envoy": n.Envoy, "dns": n.DNS, "kubelet": n.Kubelet, kubeProxy: n.KubeProxy}[name]
}

func startProgram(n *cluster.Node, name string) error {
	switch name {
	case "agent":
		return n.StartAgent()
	case "envoy":
		return n.StartEnvoy()
	case "dns":
		return n.StartDNS(netlab.CloudIP.String())
	case kubeProxy:
		return n.StartKubeProxy(cluster.NftablesMode)
	}
	return n.StartKubelet()
}

// program ends or starts a program of a node.
func (c *call) program(on bool, args []string) error {
	if len(args) == 1 && args[0] == controllerName {
		return c.controller(on)
	}
	name, n, err := c.programOf(args)
	switch {
	case err != nil:
		return err
	case n.Real && name == "machine":
		return c.machine(on, n)
	case n.Real && name != kubeProxy:
		return c.podOf(on, name, n)
	case name == "machine":
		return usagef("%s is no real node; its programs are agent, envoy, dns, kubelet and kube-proxy", n.Name)
	}
	p := process(n, name)
	switch {
	case p == nil:
		return fmt.Errorf("%s has no %s that the lab started: agent, envoy and dns are there with --proxy gridmesh, kube-proxy with --proxy kube-proxy", n.Name, name)
	case on && p.Running():
		return fmt.Errorf("%s of %s runs", name, n.Name)
	case on:
		return startProgram(n, name)
	case !p.Running():
		return fmt.Errorf("%s of %s does not run; start it with: lab start %s %s", name, n.Name, name, n.Name)
	}
	p.Kill()
	return nil
}

// programOf is a program of a node, or its machine, as people name them.
func (c *call) programOf(args []string) (name string, n *cluster.Node, err error) {
	if len(args) != 2 {
		return "", nil, usagef("say: agent, envoy, dns, kubelet, kube-proxy or machine, and NODE; or controller")
	}
	name, n = args[0], c.c.Nodes[args[1]]
	switch {
	case n == nil:
		return "", nil, usagef("no node %q; there are %s", args[1], strings.Join(names(c.c), ", "))
	case inPod[name] == "" && name != "kubelet" && name != "machine" && name != kubeProxy:
		return "", nil, usagef("no program %q; there are agent, envoy, dns, kubelet and kube-proxy; of a real node: agent, envoy, dns, kube-proxy and machine", name)
	}
	return name, n, nil
}

// machine switches a real node off or on.
func (c *call) machine(on bool, n *cluster.Node) error {
	switch running := n.Kubelet.Running(); {
	case on && running:
		return fmt.Errorf("%s is on", n.Name)
	case on:
		return n.StartKubelet()
	case !running:
		return offError(n)
	}
	n.Kubelet.Kill()
	c.say("%s is off, with its kubelet, containerd and pods; boot it with: lab start machine %s", n.Name, n.Name)
	return nil
}

func offError(n *cluster.Node) error {
	return fmt.Errorf("%s is off; boot it with: lab start machine %s", n.Name, n.Name)
}

// podOf ends a program that runs in a pod of a real node. Its kubelet starts it
// again; nobody else can.
func (c *call) podOf(on bool, name string, n *cluster.Node) error {
	switch {
	case name == "kubelet":
		return usagef("the kubelet of a real node goes and comes with its machine; say: machine %s", n.Name)
	case !n.Kubelet.Running():
		return offError(n)
	case on:
		return usagef("on a real node the kubelet starts what deploy/ asks for, and starts it again; look with: lab kubectl -n gridmesh get pods -o wide")
	}
	pids, err := n.PodProcesses("", inPod[name])
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("no pod of %s runs %s; look with: lab kubectl -n gridmesh get pods -o wide", n.Name, inPod[name])
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %s of %s: %w", name, n.Name, err)
		}
	}
	c.say("%s of %s was killed; its kubelet starts it again", name, n.Name)
	return nil
}

func (c *call) say(format string, args ...any) { fmt.Fprintf(c.files[1], format+"\n", args...) }
