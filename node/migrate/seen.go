package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/node/report"
)

// Seen is what is on a node.
type Seen struct {
	// Rules are kube-proxy's, and Alive says why it counts as running; "" for no sign of it.
	Rules kubeproxy.Rules `json:"rules,omitzero"`
	Alive string          `json:"alive,omitempty"`
	// Proxy is what kube-proxy was told; nil where its process or its file is not to be seen
	// from here, and Unread says why.
	Proxy  *Proxy `json:"proxy,omitempty"`
	Unread string `json:"unread,omitempty"`
	// Serves are the families (ip, ip6) for which gridmesh has frontends in force.
	Serves []string `json:"serves,omitempty"`
	// Agent is what the running agent says; nil where none runs.
	Agent *report.Report `json:"-"`
	// ForwardDrops: iptables drops by default what the node forwards.
	ForwardDrops bool `json:"forwardDrops,omitempty"`
}

// Node is where a node is looked at, and acted upon.
type Node struct {
	Proc         string // /proc
	StatusSocket string // of the agent
}

// Look reads what is on the node that this process is on. It changes nothing.
func (n Node) Look(ctx context.Context) (s Seen, err error) {
	if s.Rules, err = kubeproxy.Look(); err != nil {
		return s, fmt.Errorf("look at kube-proxy's rules: %w", err)
	}
	if s.Serves, err = capture.Serves(); err != nil {
		return s, fmt.Errorf("look at what gridmesh serves: %w", err)
	}
	if s.ForwardDrops, err = forwardDrops(); err != nil {
		return s, err
	}
	s.Proxy, err = n.proxy()
	if err != nil {
		s.Unread = err.Error()
	}
	r, err := report.Ask(ctx, n.StatusSocket)
	switch {
	case err == nil:
		s.Agent = r
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
		return s, err
	}
	s.Alive, err = n.alive(s.Agent)
	return s, err
}

// alive says why kube-proxy counts as running. Where an agent runs it may be that one who
// listens on kube-proxy's ports, and so it is asked.
func (n Node) alive(agent *report.Report) (string, error) {
	list, err := kubeproxy.Processes(n.Proc)
	switch {
	case err != nil:
		return "", err
	case len(list) > 0:
		return list[0].String(), nil
	case agent != nil:
		return agent.KubeProxyAlive, nil
	}
	return kubeproxy.Alive()
}

// errNoProcess is why nobody knows what kube-proxy was told.
var errNoProcess = errors.New("no process of kube-proxy is to be seen from here: its configuration is in kubectl -n kube-system get configmap kube-proxy -o yaml")

// proxy reads what the running kube-proxy was told, in its own file system.
func (n Node) proxy() (*Proxy, error) {
	list, err := kubeproxy.Processes(n.Proc)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errNoProcess
	}
	p, args := &Proxy{}, list[0].Args
	if path, given := flag(args, "config"); given {
		file, err := os.ReadFile(filepath.Join(n.Proc, strconv.Itoa(list[0].PID), "root", path))
		if err != nil {
			return nil, fmt.Errorf("read the configuration of kube-proxy, process %d: %w", list[0].PID, err)
		}
		if p, err = ParseProxy(file); err != nil {
			return nil, err
		}
	}
	p.TakeFlags(args)
	return p, nil
}

// forwardDrops reports whether a chain FORWARD of iptables drops by default.
func forwardDrops() (bool, error) {
	conn := nft.Open()
	defer conn.Close()
	chains, err := conn.Chains()
	for _, c := range chains {
		if c.Table.Name == "filter" && c.Name == "FORWARD" && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
			return true, nil
		}
	}
	return false, err
}

// Remove takes away what kube-proxy left on the node.
func (n Node) Remove() error { return kubeproxy.Remove() }
