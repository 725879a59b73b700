// Package edge starts the programs of a node, the real ones: gridmesh-agent
// and Envoy.
package edge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

// Process is a started program with its log.
type Process struct {
	Name string
	cmd  *exec.Cmd
	done chan struct{}
	log  *logBuffer

	clock int64 // where SetClock has put the seconds, 0 before
}

// Start starts a program inside a namespace.
func Start(ns *netlab.NS, name string, argv ...string) (*Process, error) {
	return StartWith(ns, nil, name, argv...)
}

// StartWith is Start with attributes, such as further namespaces.
func StartWith(ns *netlab.NS, attr *syscall.SysProcAttr, name string, argv ...string) (*Process, error) {
	p := &Process{Name: name, done: make(chan struct{}), log: &logBuffer{}}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.SysProcAttr = attr
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.WaitDelay = time.Second
	if err := ns.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the process number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns what the program wrote so far.
func (p *Process) Log() string { return p.log.String() }

// Running reports whether the program has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// endPatience is how long a program that is to end by itself may take, on the
// slowest machine.
const endPatience = 2 * time.Minute

// ExitCode waits for the end and returns the exit code; -1 of a program that
// does not end, which is killed.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
	case <-time.After(endPatience):
		p.Kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal and waits for the end, unless it only lets the process go
// on; of one that pauses it, until no thread of it runs any more: what one is doing in
// the kernel it does to the end.
func (p *Process) Signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
	switch s {
	case syscall.SIGCONT:
	case syscall.SIGSTOP:
		for end := time.Now().Add(endPatience); p.Running() && !p.stopped() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	default:
		<-p.done
	}
}

// stopped reports whether every thread has stopped, or ends.
func (p *Process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The state follows the name, which may have parentheses of its own.
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || i+2 >= len(stat) || !strings.ContainsRune("TtZXx", rune(stat[i+2])) {
			return false
		}
	}
	return len(threads) > 0
}

// Kill ends the program at once.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL) }

// logBuffer keeps the newest part of a log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 4 << 20
	if l.buf.Len() > most {
		l.buf.Next(most / 2)
	}
	return l.buf.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Node runs gridmesh on one node.
type Node struct {
	*netlab.Node
	Dir    string   // state and sockets
	DNSDir string   // of the DNS server's state; "" is Dir
	Flags  []string // of the agent, besides those that are always given
	Agent  *Process
	Envoy  *Process
	DNS    *Process
}

// NewNode prepares a node; nothing is started.
func NewNode(n *netlab.Node, flags ...string) (*Node, error) {
	e := &Node{Node: n, Dir: filepath.Join(sandbox.Dir, "node", n.Name), Flags: flags}
	return e, os.MkdirAll(e.Dir, 0o755)
}

func (e *Node) common() []string {
	flags := []string{
		"--node-name", e.Name, "--state-dir", e.Dir + "/state", "--xds-socket", e.Dir + "/xds.sock",
		"--status-socket", e.Dir + "/agent.sock", "--feed-socket", e.Dir + "/feed.sock", "--admin-socket", e.Dir + "/admin.sock",
	}
	if !slices.Contains(e.Flags, "--pod-cidr") {
		flags = append(flags, "--pod-cidr", e.PodCIDR.String()+","+e.PodCIDR6.String())
	}
	return append(flags, e.Flags...)
}

// StartAgent starts the agent.
func (e *Node) StartAgent() (err error) {
	return e.startAgent(nil)
}

// StartHiddenAgent starts the agent with processes of its own: it sees no others, as in a pod.
func (e *Node) StartHiddenAgent() (err error) {
	own := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	return e.startAgent(own, "sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && exec "$@"`, "sh")
}

func (e *Node) startAgent(attr *syscall.SysProcAttr, by ...string) (err error) {
	e.Agent, err = StartWith(e.NS, attr, "agent "+e.Name, slices.Concat(by, []string{Binary("gridmesh-agent")}, e.common())...)
	return err
}

// StartEnvoy starts Envoy with the bootstrap that the agent prints.
func (e *Node) StartEnvoy() error {
	out, err := e.Run("bootstrap")
	if err != nil {
		return fmt.Errorf("print bootstrap: %w: %s", err, out)
	}
	path := filepath.Join(e.Dir, "envoy.yaml")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		return err
	}
	e.Envoy, err = Start(e.NS, "envoy "+e.Name, Binary("envoy"), "--disable-hot-restart", "--concurrency", "2", "-l", envoyLog(), "-c", path)
	return err
}

// envoyLog is Envoy's log level: GRIDMESH_ENVOY_LOG=debug for a hard case.
func envoyLog() string { return cmp.Or(os.Getenv("GRIDMESH_ENVOY_LOG"), "warning") }

// Run runs a subcommand of the agent on the node and returns its output. Flags
// come behind the node's, and so before them in force.
func (e *Node) Run(subcommand string, flags ...string) ([]byte, error) {
	var out bytes.Buffer
	cmd := exec.Command(Binary("gridmesh-agent"), append(append([]string{subcommand}, e.common()...), flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := e.NS.Start(cmd); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	return out.Bytes(), err
}

// Admin asks Envoy's admin interface.
func (e *Node) Admin(path string) (string, error) { return unixGet(e.Dir+"/admin.sock", path) }

// Metrics reads the agent's metrics.
func (e *Node) Metrics() (string, error) { return e.get("127.0.0.1:10249", "/metrics") }

// DNSMetrics reads those of the node's DNS.
func (e *Node) DNSMetrics() (string, error) { return e.get("127.0.0.1:9253", "/metrics") }

// get asks a listener of the node.
func (e *Node) get(address, path string) (string, error) {
	return Get(e.NS, address, path)
}

// Get asks an HTTP listener of a namespace.
func Get(ns *netlab.NS, address, path string) (string, error) {
	conn := func(ctx context.Context, _, _ string) (net.Conn, error) { return ns.Dial(ctx, "tcp", address) }
	return get(conn, "http://node"+path)
}

// WaitReady waits until Envoy listens on the capture ports and the agent is in line.
func (e *Node) WaitReady(ctx context.Context) error {
	for {
		body, err := e.Admin("/listeners")
		if err == nil && strings.Contains(body, "tcp6-plain") {
			if health, err := e.health(); err == nil && strings.Contains(health, `"healthy":true`) {
				return nil
			}
		}
		if e.Agent != nil && !e.Agent.Running() {
			return fmt.Errorf("agent of %s ended:\n%s", e.Name, e.Agent.Log())
		}
		if e.Envoy != nil && !e.Envoy.Running() {
			return fmt.Errorf("envoy of %s ended:\n%s", e.Name, e.Envoy.Log())
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), fmt.Errorf("%s is not ready: %s\n%s\n%s", e.Name, body, e.Agent.Log(), e.Envoy.Log()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (e *Node) health() (string, error) { return e.get("127.0.0.1:10256", "/healthz") }

func unixGet(socket, path string) (string, error) {
	return get(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}, "http://unix"+path)
}

func get(dial func(ctx context.Context, network, addr string) (net.Conn, error), url string) (string, error) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	return b.String(), err
}
