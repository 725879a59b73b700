package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

// Attr are the namespaces of a machine, besides the network that it is started in.
func Attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
}

// GridmeshDir is where what the machine has as /run/gridmesh is seen from
// outside, below its directory.
const GridmeshDir = "gridmesh"

// First is the machine's first process: it furnishes the namespaces, starts
// this program again as Serve, and buries whoever loses its parent. Its end,
// or ctx's, is the machine's.
func First(ctx context.Context, cfg *Config, serve ...string) error {
	if os.Getpid() != 1 {
		return errors.New("it must be the first process of its namespace")
	}
	if err := cfg.furnish(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child, err := os.StartProcess(self, append([]string{self}, serve...), &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { os.Exit(0) }) // and the kernel ends the rest
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case pid == child.Pid:
			return fmt.Errorf("the machine's programs ended (status %#x)", uint32(status))
		}
	}
}

// furnish gives the machine its own /proc, /run, /var/lib and /var/log, and
// its name.
func (c *Config) furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := c.mountRun(); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for inside, outside := range map[string]string{"/var/lib": "lib", "/var/log": "log", "/run/gridmesh": GridmeshDir} {
		outside = filepath.Join(c.Dir, outside)
		if inside == "/run/gridmesh" {
			if err := os.RemoveAll(outside); err != nil { // as any /run, it does not outlive the machine
				return err
			}
		}
		if err := bind(outside, inside); err != nil {
			return err
		}
	}
	if err := c.shieldTunables(); err != nil {
		return err
	}
	return unix.Sethostname([]byte(c.Node))
}

// bind shows a directory, which is made, at another place.
func bind(outside, inside string) error {
	for _, dir := range []string{outside, inside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(outside, inside, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", inside, err)
	}
	return nil
}

// KubeInside is where the machine finds the program with the kubelet in it,
// wherever the checkout is.
const KubeInside = "/run/programs/kube"

// mountRun lays a new /run over the sandbox's, whose own directory stays.
func (c *Config) mountRun() error {
	stage := filepath.Join(c.Dir, "run")
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("machine", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	if err := bind(sandbox.Dir, stage+strings.TrimPrefix(sandbox.Dir, "/run")); err != nil {
		return err
	}
	kube := stage + strings.TrimPrefix(KubeInside, "/run")
	if err := bindFile(c.Kube, kube); err != nil {
		return err
	}
	return unix.Mount(stage, "/run", "", unix.MS_MOVE, "")
}

func bindFile(outside, inside string) error {
	if err := os.MkdirAll(filepath.Dir(inside), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(inside, nil, 0o755); err != nil {
		return err
	}
	return unix.Mount(outside, inside, "", unix.MS_BIND, "")
}

// tunables are what a kubelet sets of the kernel, for all that runs on it.
var tunables = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// shieldTunables lays files over them: they are this machine's, not the lab's.
func (c *Config) shieldTunables() error {
	for _, name := range tunables {
		path := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		shield := filepath.Join("/run/tunables", name)
		if err := os.MkdirAll(filepath.Dir(shield), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(shield, value, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(shield, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over %s: %w", path, err)
		}
	}
	return nil
}

// Serve runs the machine's programs until one of them ends.
func Serve(ctx context.Context, cfg *Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	files, err := cfg.files()
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(cfg.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	ended := make(chan error, 2)
	run := func(argv ...string) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { ended <- fmt.Errorf("%s: %w", filepath.Base(argv[0]), errors.Join(cmd.Wait(), errEnded)) }()
		return nil
	}
	if err := run("containerd", "--config", filepath.Join(cfg.Dir, "containerd.toml"), "--log-level", "warn"); err != nil {
		return err
	}
	if err := cfg.importImages(ctx); err != nil {
		return err
	}
	if err := run(KubeInside, "kubelet", "--config", filepath.Join(cfg.Dir, "kubelet.yaml"), "--kubeconfig", cfg.Kubeconfig,
		"--hostname-override", cfg.Node, "--node-ip", strings.Join(cfg.IPs, ","), "--v", "1"); err != nil {
		return err
	}
	return <-ended
}

var errEnded = errors.New("it ended")

// importImages gives containerd its images, once in the life of the disk.
func (c *Config) importImages(ctx context.Context) error {
	done := filepath.Join(c.Dir, "images-imported")
	if err := answers(ctx, containerdSocket); err != nil {
		return err
	}
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	for _, archive := range c.Images {
		cmd := exec.CommandContext(ctx, "ctr", "--address", containerdSocket, "--namespace", "k8s.io", "images", "import", archive)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("import %s: %w: %s", archive, err, out)
		}
	}
	return os.WriteFile(done, nil, 0o600)
}

// answers waits until somebody listens on a Unix socket.
func answers(ctx context.Context, socket string) error {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
