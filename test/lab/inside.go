package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// execute runs a command on a node, or in a pod's network, with the names that
// are known there.
func (c *call) execute(args []string) error {
	if len(args) > 1 && args[1] == "--" {
		args = slices.Delete(args, 1, 2)
	}
	if len(args) < 2 {
		return usagef("say: NODE COMMAND..., or POD COMMAND... (NAMESPACE/POD outside of default)")
	}
	argv, err := absolute(args[1:])
	if err != nil {
		return c.notRun(err)
	}
	if n := c.c.Nodes[args[0]]; n != nil {
		return c.onNode(n, argv)
	}
	return c.inPod(args[0], argv)
}

// notRun is for a command that cannot be started: a shell's exit codes.
func (c *call) notRun(err error) error {
	const notExecutable, notFound = 126, 127
	fmt.Fprintln(c.files[2], "lab:", err)
	if errors.Is(err, fs.ErrPermission) {
		return exitCode(notExecutable)
	}
	return exitCode(notFound)
}

// inPod runs a command in a pod's network.
func (c *call) inPod(pod string, argv []string) error {
	namespace, name, found := strings.Cut(pod, "/")
	if !found {
		namespace, name = "default", pod
	}
	out, err := c.c.Kubectl("get", "pod", "-n", namespace, name, "-o", "jsonpath={.metadata.uid} {.spec.nodeName} {.spec.hostNetwork}")
	if err != nil {
		return usagef("no node and no pod %s; nodes are %s; kubectl says: %s", pod, strings.Join(names(c.c), ", "), strings.TrimSpace(out))
	}
	f := strings.Fields(out)
	if len(f) < 2 || c.c.Nodes[f[1]] == nil {
		return fmt.Errorf("pod %s/%s is on no node yet", namespace, name)
	}
	n := c.c.Nodes[f[1]]
	if !n.Real && slices.Contains(f[2:], "true") {
		return c.onNode(n, argv) // whose network is the pod's
	}
	ns, err := netlab.OpenNS("pod-" + f[0])
	if err != nil {
		return err
	}
	defer ns.Leave()
	text, err := resolvConf(f[0])
	if err != nil {
		return err
	}
	return c.named(ns, surroundings{names: text}, argv)
}

// onNode runs a command on a node; on a real one, where its programs see each
// other and its files.
func (c *call) onNode(n *cluster.Node, argv []string) error {
	var at surroundings
	switch {
	case n.Real && !n.Kubelet.Running():
		return offError(n)
	case n.Real:
		at.enter = []string{"nsenter", "--target", strconv.Itoa(n.Kubelet.PID()), "--mount", "--pid", "--uts", "--ipc"}
	default:
		at.own = n.Dir
	}
	if runs(n, "dns") != none {
		at.names = nodeNames
	}
	return c.named(n.NS, at, argv)
}

// surroundings are what a command finds where it runs, besides the network.
type surroundings struct {
	enter []string // a command that goes there
	names string   // of its resolv.conf; "" for the machine's own
	own   string   // the node's directory, with the programs' sockets and state, which they find where they expect them; "" for none
}

// nodeNames lets people on a node say a Service's name as pods of the namespace
// default do.
var nodeNames = "nameserver " + edge.NodeDNS[0] + "\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"

// surround lays a file over the machine's own resolv.conf, and a node's directory over
// those of the programs' sockets and state, for one command alone, and goes to where the
// caller is. Where the machine's file is a link to nowhere, for /run is the lab's, there
// is a file first; and where it has no state directory one is made in a view of
// /var/lib, not on the machine.
const surround = `if [ -n "$0" ]; then
  to=$(readlink -m /etc/resolv.conf)
  case $to in /run/*) [ -e "$to" ] || { mkdir -p "${to%/*}" && : >"$to"; } ;; esac
  mount --bind "$0" "$to" || exit
fi
if [ -n "$2" ]; then
  if [ ! -d /var/lib/gridmesh ] || [ ! -d /var/lib/gridmesh-health ]; then
    mkdir -p /run/var-lib && mount --rbind /var/lib /run/var-lib && mount -t tmpfs -o mode=755 lab /var/lib || exit
    ln -s /run/var-lib/* /var/lib/ && mkdir -p /var/lib/gridmesh /var/lib/gridmesh-health || exit
  fi
  for at in /run/gridmesh= /var/lib/gridmesh=state /run/gridmesh-health=health/run /var/lib/gridmesh-health=health/state; do
    mkdir -p "$2/${at#*=}" "${at%=*}" && mount --bind "$2/${at#*=}" "${at%=*}" || exit
  done
fi
cd "$1" 2>/dev/null
shift 2
exec "$@"`

// named runs a command in its surroundings.
func (c *call) named(ns *netlab.NS, at surroundings, argv []string) error {
	path := ""
	if at.names != "" {
		f, err := os.CreateTemp("", "resolv.conf-")
		if err != nil {
			return err
		}
		path = f.Name()
		defer os.Remove(path)
		_, err = f.WriteString(at.names)
		if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
			return err
		}
	}
	all := slices.Concat(at.enter, []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", surround, path, c.dir, at.own}, argv)
	return c.run(ns, c.files[2], all)
}

// resolvConf is a pod's resolv.conf, of the oldest of its processes which has
// one: the file itself lies in mounts of the container's own.
func resolvConf(uid string) (string, error) {
	pids, err := edge.PodProcesses(uid)
	if err != nil {
		return "", fmt.Errorf("the pod's names: %w", err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/resolv.conf", pid))
		if err == nil {
			return string(text), nil
		}
	}
	return "", errors.New("no process of the pod has a resolv.conf")
}

// absolute finds a program: ours first.
func absolute(argv []string) ([]string, error) {
	path := edge.Binary(argv[0])
	if _, err := os.Stat(path); err != nil || filepath.IsAbs(argv[0]) {
		if path, err = exec.LookPath(argv[0]); err != nil {
			return nil, err
		}
	}
	return append([]string{path}, argv[1:]...), nil
}

// kubectl runs kubectl in the cloud.
func (c *call) kubectl(args []string) error {
	argv := append([]string{edge.Binary("kube"), "kubectl", "--kubeconfig", c.c.Kubeconfig}, args...)
	if len(args) == 0 || !slices.Contains(served, args[0]) {
		return c.run(c.c.Lab.Cloud, c.files[2], argv)
	}
	said := &tail{to: c.files[2]}
	err := c.run(c.c.Lab.Cloud, said, argv)
	if err != nil && !allReal(c.c) && kubeletCall.Match(said.last) {
		fmt.Fprintln(c.files[2], `lab: the stand-in for the kubelet takes no calls. Instead of kubectl exec say "lab exec POD COMMAND";
lab: what pods write is in /run/lab/node/NODE/logs: lab exec NODE sh -c 'tail -n 50 /run/lab/node/NODE/logs/*'`)
	}
	return err
}

func allReal(c *cluster.Cluster) bool {
	for _, n := range c.Nodes {
		if !n.Real {
			return false
		}
	}
	return true
}

// gridmesh runs what of gridmesh asks a cluster, grid or health, in the cloud.
func (c *call) gridmesh(command string, args []string) error {
	if command == "grid" {
		args = overLab(args, c.c.Kubeconfig)
	}
	argv := append([]string{"env", "KUBECONFIG=" + c.c.Kubeconfig, edge.Binary("gridmesh"), command}, args...)
	return c.run(c.c.Lab.Cloud, c.files[2], argv)
}

// overLab has a plan of manifests put them over what the lab has, unless a
// cluster is named: alone they know no node of it.
func overLab(args []string, kubeconfig string) []string {
	named := slices.ContainsFunc(args, func(a string) bool {
		flag, _, _ := strings.Cut(a, "=")
		return flag == "--kubeconfig" || flag == "--context"
	})
	if len(args) == 0 || args[0] != "plan" || named {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "--kubeconfig", kubeconfig)
}

// served are the verbs of kubectl that ask a node's kubelet.
var served = []string{"exec", "logs", "attach", "cp", "port-forward", "debug"}

// kubeletCall is what the API server says where no kubelet listens, which is as
// it should be with the stand-in.
var kubeletCall = regexp.MustCompile(`https://[^/ ]*:10250/.*connection refused`)

// tail passes on what is written, and keeps the end.
type tail struct {
	to   io.Writer
	last []byte
}

func (t *tail) Write(b []byte) (int, error) {
	const most = 4 << 10
	t.last = append(t.last, b...)
	t.last = t.last[max(0, len(t.last)-most):]
	return t.to.Write(b)
}

// killAfter is how long a command has to end when its caller has.
const killAfter = 2 * time.Second

// run runs a command inside, with the caller's files and where the caller is.
// It ends with the caller, and so does what it started.
func (c *call) run(ns *netlab.NS, stderr io.Writer, argv []string) error {
	argv, err := absolute(argv)
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.files[0], c.files[1], stderr
	cmd.WaitDelay = killAfter
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(edge.Root(), "bin")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if info, err := os.Stat(c.dir); err == nil && info.IsDir() { // it may be none of the sandbox's
		cmd.Dir = c.dir
	}
	if err := ns.Start(cmd); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-c.ctx.Done():
		}
		group := -cmd.Process.Pid
		_ = syscall.Kill(group, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(killAfter):
		}
		_ = syscall.Kill(group, syscall.SIGKILL)
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitCode(max(exit.ExitCode(), 1))
	}
	return err
}
