package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container runs one container's process, again and again where its pod says so.
type container struct {
	w       *worker
	pod     *corev1.Pod // as it was when it began: the worker's own is replaced beside us
	spec    *corev1.Container
	volumes map[string]string

	mu        sync.Mutex
	state     corev1.ContainerState
	lastState corev1.ContainerState
	ready     bool
	restarts  int32
	proc      *os.Process
	stopping  bool
	done      bool
}

func newContainer(w *worker, spec *corev1.Container, volumes map[string]string) *container {
	return &container{w: w, pod: w.pod, spec: spec, volumes: volumes, state: waiting("ContainerCreating", ""), ready: spec.ReadinessProbe == nil}
}

func (c *container) isDone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// run keeps the container running until it is stopped or has ended for good.
func (c *container) run(ctx context.Context) {
	backOff := backOffMin
	for ctx.Err() == nil {
		begin := time.Now()
		code, err := c.once(ctx)
		c.mu.Lock()
		stopping := c.stopping
		c.mu.Unlock()
		policy := c.pod.Spec.RestartPolicy
		if stopping || err == nil && (policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && code == 0) {
			c.finish()
			return
		}
		if time.Since(begin) > backOffMax {
			backOff = backOffMin
		}
		if err == nil {
			c.set(waiting("CrashLoopBackOff", fmt.Sprintf("exit code %d, back-off %s", code, backOff)))
		}
		select {
		case <-time.After(backOff):
		case <-ctx.Done():
			c.finish()
			return
		}
		backOff = min(2*backOff, backOffMax)
		if err == nil {
			c.mu.Lock()
			c.restarts++
			c.mu.Unlock()
		}
	}
}

// runOnce runs an init container until it succeeds.
func (c *container) runOnce(ctx context.Context) bool {
	for backOff := backOffMin; ctx.Err() == nil; backOff = min(2*backOff, backOffMax) {
		code, err := c.once(ctx)
		if err == nil && code == 0 {
			c.finish()
			return true
		}
		if err == nil && c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			c.finish()
			return false
		}
		select {
		case <-time.After(backOff):
		case <-ctx.Done():
		}
	}
	return false
}

func (c *container) finish() {
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	c.w.notify()
}

// once starts the process and waits for its end. An error means that it
// could not be started.
func (c *container) once(ctx context.Context) (code int32, err error) {
	image, known := c.w.k.cfg.Images[c.spec.Image]
	if !known {
		c.set(waiting("ImagePullBackOff", fmt.Sprintf("image %q is not in the cluster's map of images", c.spec.Image)))
		return 0, fmt.Errorf("unknown image %s", c.spec.Image)
	}
	cmd, err := c.command(ctx, image)
	if err == nil {
		err = c.start(cmd)
	}
	if err != nil {
		c.set(waiting("CreateContainerError", err.Error()))
		return 0, err
	}
	begin := metav1.Now()
	c.set(runningSince(begin))
	probing, stop := context.WithCancel(ctx)
	go c.probe(probing)
	_ = cmd.Wait()
	stop()
	code = exitCode(cmd.ProcessState)
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	c.mu.Lock()
	c.proc = nil
	c.ready = c.spec.ReadinessProbe == nil
	c.mu.Unlock()
	c.set(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: begin, FinishedAt: metav1.Now()}})
	return code, nil
}

func exitCode(s *os.ProcessState) int32 {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int32(ws.Signal())
	}
	return int32(s.ExitCode())
}

// command writes down what ContainerInit has to do.
func (c *container) command(ctx context.Context, image Image) (*exec.Cmd, error) {
	env, err := c.w.k.environment(ctx, c.spec, c.w.facts)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, e := range env {
		name, value, _ := cut(e)
		values[name] = value
	}
	argv := c.argv(image, values)
	if len(argv) == 0 {
		return nil, fmt.Errorf("neither the container nor image %s has a command", c.spec.Image)
	}
	dir := filepath.Join(c.w.dir, "containers", c.spec.Name)
	spec := c.initSpec(dir, argv, env, image)
	if err := os.MkdirAll(spec.Root, 0o755); err != nil {
		return nil, err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "init.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", "container-init", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	log := filepath.Join(c.w.k.cfg.Dir, "logs", fmt.Sprintf("%s_%s_%s.log", c.pod.Namespace, c.pod.Name, c.spec.Name))
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, nil
}

// argv is a slice of its own: the image's command is every container's.
func (c *container) argv(image Image, values map[string]string) []string {
	command := image.Command
	if len(c.spec.Command) > 0 {
		command = c.spec.Command
	}
	argv := slices.Concat(command, c.spec.Args)
	for i := range argv {
		argv[i] = expand(argv[i], values)
	}
	return argv
}

// initSpec is the container's file system, names and program.
func (c *container) initSpec(dir string, argv, env []string, image Image) initSpec {
	spec := initSpec{
		Root: filepath.Join(dir, "root"), Argv: argv, Env: env, Dir: "/", Binds: map[string]string{},
		Etc: map[string]string{
			"resolv.conf": c.w.k.cfg.resolvConf(c.pod), "hosts": c.w.k.cfg.hosts(c.pod, c.w.facts.ips),
			"hostname": hostname(c.pod) + "\n", "passwd": "root:x:0:0:root:/:/bin/sh\n", "group": "root:x:0:\n", "nsswitch.conf": "hosts: files dns\n",
		},
	}
	if c.spec.WorkingDir != "" {
		spec.Dir = c.spec.WorkingDir
	}
	if !c.pod.Spec.HostNetwork {
		spec.Hostname = hostname(c.pod)
	}
	for inside, outside := range image.Files {
		spec.Binds[inside] = outside
	}
	for _, m := range c.spec.VolumeMounts {
		spec.Binds[m.MountPath] = filepath.Join(c.volumes[m.Name], m.SubPath)
	}
	return spec
}

func (c *container) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return context.Canceled
	}
	ns := c.w.k.net.host
	if c.w.netPod != nil {
		ns = c.w.netPod.NS
	}
	err := ns.Start(cmd)
	if out, ok := cmd.Stdout.(*os.File); ok {
		_ = out.Close() // the process has its own
	}
	if err == nil {
		c.proc = cmd.Process
	}
	return err
}

// stop ends the process: at once by SIGTERM, at the deadline by SIGKILL.
func (c *container) stop(deadline time.Time) {
	c.mu.Lock()
	c.stopping = true
	proc := c.proc
	c.mu.Unlock()
	if proc == nil {
		return
	}
	if wait := time.Until(deadline); wait > 0 {
		// The first process of a pid namespace takes SIGTERM only if it
		// handles it; like a real runtime we wait for the grace period.
		_ = proc.Signal(syscall.SIGTERM)
		time.AfterFunc(wait, func() { _ = proc.Kill() })
		return
	}
	_ = proc.Kill()
}

// kill ends the process so that it is started again.
func (c *container) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc != nil {
		_ = c.proc.Kill()
	}
}

func cut(e string) (name, value string, ok bool) {
	for i := range e {
		if e[i] == '=' {
			return e[:i], e[i+1:], true
		}
	}
	return e, "", false
}
