package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// execute runs a command on a node, or in a pod's network with its names.
func (c *call) execute(args []string) error {
	if len(args) < 2 {
		return errors.New("say: NODE COMMAND..., or POD COMMAND... (NAMESPACE/POD outside of default)")
	}
	if n := c.c.Lab.Node(args[0]); n != nil {
		return c.run(n.NS, args[1:])
	}
	namespace, name, found := strings.Cut(args[0], "/")
	if !found {
		namespace, name = "default", args[0]
	}
	uid, err := c.c.Kubectl("get", "pod", "-n", namespace, name, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return fmt.Errorf("no node and no pod %s: %s", args[0], strings.TrimSpace(uid))
	}
	ns, err := netlab.OpenNS("pod-" + uid)
	if err != nil {
		return err
	}
	file, err := resolvConf(uid)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	argv, err := absolute(args[1:])
	if err != nil {
		return err
	}
	// The file lies over the machine's own for this command alone.
	return c.run(ns, append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, file}, argv...))
}

// resolvConf is a copy of a pod's resolv.conf, of the oldest of its processes
// which has one: the file itself lies in mounts of the container's own.
func resolvConf(uid string) (string, error) {
	pids, err := edge.PodProcesses(uid)
	if err != nil {
		return "", fmt.Errorf("the pod's names: %w", err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/resolv.conf", pid))
		if err != nil {
			continue
		}
		f, err := os.CreateTemp("", "resolv.conf-")
		if err != nil {
			return "", err
		}
		_, err = f.Write(text)
		return f.Name(), errors.Join(err, f.Chmod(0o644), f.Close())
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

// served are the verbs of kubectl that ask a node's kubelet.
var served = []string{"exec", "logs", "attach", "cp", "port-forward", "debug"}

// kubectl runs kubectl in the cloud.
func (c *call) kubectl(args []string) error {
	err := c.run(c.c.Lab.Cloud, append([]string{edge.Binary("kube"), "kubectl", "--kubeconfig", c.c.Kubeconfig}, args...))
	if err != nil && len(args) > 0 && slices.Contains(served, args[0]) {
		fmt.Fprintln(c.files[2], `lab: where nodes run the stand-in for the kubelet, it takes no calls. Instead of kubectl exec say "lab exec POD COMMAND";
lab: what pods write is in /run/lab/node/NODE/logs: lab exec NODE sh -c 'tail -n 50 /run/lab/node/NODE/logs/*'`)
	}
	return err
}

// killAfter is how long a command has to end when its caller has.
const killAfter = 2 * time.Second

// run runs a command inside, with the caller's files and where the caller is.
// It ends with the caller, and so does what it started.
func (c *call) run(ns *netlab.NS, argv []string) error {
	argv, err := absolute(argv)
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.files[0], c.files[1], c.files[2]
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

// program ends or starts a program of a node.
func program(c *cluster.Cluster, on bool, args []string) error {
	usage := errors.New("say: agent, envoy, dns or kubelet, and NODE")
	if len(args) != 2 || c.Nodes[args[1]] == nil {
		return usage
	}
	n := c.Nodes[args[1]]
	programs := map[string]struct {
		process *edge.Process
		start   func() error
	}{
		"agent": {n.Agent, n.StartAgent}, "envoy": {n.Envoy, n.StartEnvoy}, "kubelet": {n.Kubelet, n.StartKubelet},
		"dns": {n.DNS, func() error { return n.StartDNS(netlab.CloudIP.String()) }},
	}
	p, known := programs[args[0]]
	running := p.process != nil && p.process.Running()
	switch {
	case !known:
		return usage
	case on && running:
		return fmt.Errorf("%s of %s runs", args[0], args[1])
	case on:
		return p.start()
	case !running:
		return fmt.Errorf("%s of %s does not run; start it with: lab start %s %s", args[0], args[1], args[0], args[1])
	}
	p.process.Kill()
	return nil
}
