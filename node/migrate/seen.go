package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/node/report"
)

// Seen is what is on a node.
type Seen struct {
	At time.Time `json:"-"` // when
	// Rules are kube-proxy's, and Alive says why it counts as running; "" for no sign of it.
	Rules kubeproxy.Rules `json:"rules,omitzero"`
	Alive string          `json:"alive,omitempty"`
	Told  bool            `json:"-"` // Alive is what the agent saw at its last look, not what is seen from here
	// Proxy is what kube-proxy was told; nil where its process or its file is not to be seen
	// from here, and Unread says why.
	Proxy  *Proxy `json:"proxy,omitempty"`
	Unread string `json:"unread,omitempty"`
	// Serves are the families (ip, ip6) for which gridmesh has frontends in force, and Theirs
	// those for which kube-proxy has, live or left over.
	Serves []string `json:"serves,omitempty"`
	Theirs []string `json:"theirs,omitempty"`
	// Installed: rules of gridmesh are there, if only those of an agent that never served.
	Installed bool `json:"installed,omitempty"`
	// Handed: the rules in force hand new connections to Envoy.
	Handed bool `json:"handed,omitempty"`
	// Agent is what the running agent says; nil where none answers at Asked, its socket.
	Agent *report.Report `json:"-"`
	Asked string         `json:"-"`
	// ForwardDrops: iptables drops by default what the node forwards.
	ForwardDrops bool `json:"forwardDrops,omitempty"`
}

// Node is where a node is looked at.
type Node struct {
	Proc         string // /proc
	StatusSocket string // of the agent
}

// Look reads what is on the node that this process is on. It changes nothing.
func (n Node) Look(ctx context.Context) (s Seen, err error) {
	s.At = time.Now()
	if s.Rules, err = kubeproxy.Look(); err != nil {
		return s, fmt.Errorf("look at kube-proxy's rules: %w", err)
	}
	if s.Theirs, err = kubeproxy.Serving(); err != nil {
		return s, fmt.Errorf("look at what kube-proxy serves: %w", err)
	}
	if s.Serves, err = capture.Serves(); err != nil {
		return s, fmt.Errorf("look at what gridmesh serves: %w", err)
	}
	if s.Installed, err = capture.Installed(plan.Default()); err != nil {
		return s, err
	}
	if s.Handed, err = capture.Handed(); err != nil {
		return s, fmt.Errorf("look at what is handed to Envoy: %w", err)
	}
	if s.ForwardDrops, err = forwardDrops(); err != nil {
		return s, err
	}
	list, err := kubeproxy.Processes(n.Proc)
	if err != nil {
		return s, err
	}
	if s.Proxy, err = n.proxy(list); err != nil {
		s.Unread = err.Error()
	}
	s.Asked = n.StatusSocket
	r, err := report.Ask(ctx, n.StatusSocket)
	switch {
	case err == nil:
		s.Agent = r
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
		return s, err
	}
	s.Told = len(list) == 0 && s.Agent != nil
	s.Alive, err = alive(list, s.Agent)
	return s, err
}

// alive says why kube-proxy counts as running. Where an agent runs it may be that one who
// listens on kube-proxy's ports, and so it is asked; one that does not look at kube-proxy
// knows nothing.
func alive(list []kubeproxy.Process, agent *report.Report) (string, error) {
	switch {
	case len(list) > 0:
		return list[0].String(), nil
	case agent != nil:
		return agent.KubeProxyAlive, nil
	}
	signs, err := kubeproxy.Alive()
	return signs.Text(), err
}

// errNoProcess is why nobody knows what kube-proxy was told.
var errNoProcess = errors.New("no process of kube-proxy is to be seen from here: its configuration is in kubectl -n kube-system get configmap kube-proxy -o yaml")

// proxy reads what the running kube-proxy was told.
func (n Node) proxy(list []kubeproxy.Process) (*Proxy, error) {
	if len(list) == 0 {
		return nil, errNoProcess
	}
	path, _ := flag(list[0].Args, "config")
	if path == "" {
		return ofFlags(list[0].Args), nil
	}
	file, err := readOf(filepath.Join(n.Proc, strconv.Itoa(list[0].PID), "root"), path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of kube-proxy, process %d: %w", list[0].PID, err)
	}
	return ParseProxy(file)
}

// maxConfig bounds a configuration of kube-proxy: it has a page or two.
const maxConfig = 1 << 20

// errNoFile is of what may not end, or not begin.
var errNoFile = fmt.Errorf("it is no file of %d bytes at most", maxConfig)

// readOf reads a file of somebody else's file system: what he has there, and where it
// leads, is his, so nothing outside of it is opened, nor waited for.
func readOf(root, path string) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	file, err := dir.OpenFile(strings.TrimLeft(path, "/"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, errors.Join(errNoFile, err)
	}
	return io.ReadAll(io.LimitReader(file, maxConfig))
}

// forwardDrops reports whether a chain FORWARD of iptables drops by default.
func forwardDrops() (bool, error) {
	conn := nft.Open()
	defer conn.Close()
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		c, err := conn.Chain(&nftables.Table{Name: "filter", Family: family}, "FORWARD")
		if err != nil {
			return false, err
		}
		if c != nil && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
			return true, nil
		}
	}
	return false, nil
}
