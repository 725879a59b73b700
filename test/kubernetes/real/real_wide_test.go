package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// One Service and its slices, which any tenant may write: 131 ports, for each of which a
// slice lists 1000 addresses, clients that are remembered, and two addresses besides its
// own. Within the memory that deploy/ gives them no program of a node is ended for it, not
// where it is rewritten nor where an agent starts beside it, and others are served.
func TestATenantAsksForMuch(t *testing.T) {
	needReal(t)
	if os.Getenv("BOUNDS_WHOLE") == "" {
		t.Skip("this takes minutes: make bounds runs it")
	}
	deployed(t)
	a := deploy(t, "beside", 8080, false)
	served(t, a, a)
	restarts := restartsOf(t)
	ctx := patient(t)
	kubectl(t, "create", "namespace", "tenant")
	t.Cleanup(func() { kubectl(t, "delete", "namespace", "tenant") })
	_, err := c.Kube.CoreV1().Services("tenant").Create(ctx, wideService(), metav1.CreateOptions{})
	must(t, err)
	client := c.Kube.DiscoveryV1().EndpointSlices("tenant")
	for round := range 7 {
		start := time.Now()
		for _, slice := range wideSlices(round) {
			if round == 0 {
				_, err = client.Create(ctx, slice, metav1.CreateOptions{})
			} else {
				_, err = client.Update(ctx, slice, metav1.UpdateOptions{})
			}
			must(t, err)
		}
		for _, n := range c.Nodes {
			wait.Eventually(t, func() error { return servesAll(t, n, start) })
			servedOn(t, n.Name, a, a)
		}
		t.Logf("round %d: told after %s; %s", round, time.Since(start).Round(10*time.Millisecond), peaks(t))
	}
	since := time.Now()
	took := wait.Eventually(t, func() error {
		for _, n := range c.Nodes {
			if err := servesAll(t, n, time.Time{}); err != nil {
				since = time.Now()
				return err
			}
		}
		if calm := time.Since(since); calm < 2*looked {
			return fmt.Errorf("nobody waits since %s", calm)
		}
		return nil
	})
	t.Logf("all of it is served after another %s; %s", took.Round(10*time.Millisecond), peaks(t))
	pod := podOf(t, "b-1", "gridmesh-agent")
	kubectl(t, "-n", "gridmesh", "delete", "pod", pod.Name)
	start := time.Now()
	kubectl(t, "-n", "gridmesh", "rollout", "status", "daemonset/gridmesh-agent", "--timeout=5m")
	wait.Eventually(t, func() error { return servesAll(t, c.Nodes["b-1"], start) })
	servedOn(t, "b-1", a, a)
	t.Logf("an agent that starts beside it: %s", peaks(t))
	for name, before := range restarts {
		if now, there := restartsOf(t)[name]; there && now != before {
			t.Errorf("%s was started again: %d times, was %d", name, now, before)
		}
	}
}

// wideService asks for all that a Service may.
func wideService() *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "wide"}}
	s.Spec.ExternalIPs = []string{"192.0.2.77", "192.0.2.78"}
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	for i := range widePorts {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1 + i)})
	}
	return s
}

const (
	widePorts    = 131
	looked       = 5 * time.Second // how often an agent looks at what is there to be told
	portsOfSlice = 100             // as many as the API server takes
)

// wideSlices are all addresses of all ports, which are others in each round.
func wideSlices(round int) (list []*discoveryv1.EndpointSlice) {
	var endpoints []discoveryv1.Endpoint
	for i := range 1000 {
		address := netip.AddrFrom4([4]byte{10, byte(32 + round), byte(i >> 8), byte(i)})
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{address.String()}})
	}
	for first := 0; first < widePorts; first += portsOfSlice {
		s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints}
		s.Name, s.Labels = fmt.Sprint("wide-", first), map[string]string{discoveryv1.LabelServiceName: "wide"}
		for i := first; i < min(first+portsOfSlice, widePorts); i++ {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(fmt.Sprint("p", i)), Port: new(int32(8001 + i))})
		}
		list = append(list, s)
	}
	return list
}

// servesAll returns nil once a node's agent has heard of something after a time, and nobody
// waits for a turn any more.
func servesAll(t *testing.T, n *cluster.Node, after time.Time) error {
	t.Helper()
	out, err := n.Run("status", "--status-socket", n.AgentSocket(), "-o", "json")
	if err != nil {
		return fmt.Errorf("status of %s: %w: %s", n.Name, err, out)
	}
	var status struct {
		Updated  time.Time
		Error    string
		Findings []struct{ Kind, Text string }
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return fmt.Errorf("status of %s: %w: %s", n.Name, err, out)
	}
	for _, f := range status.Findings {
		if f.Kind == "kernel-pace" {
			return errors.New(f.Text)
		}
	}
	if status.Updated.Before(after) || status.Error != "" {
		return fmt.Errorf("%s is of %s: %s", n.Name, status.Updated, status.Error)
	}
	return nil
}

// heldToItsLimit holds that Go knows of the memory that deploy/ gives an agent.
func heldToItsLimit(t *testing.T, n *cluster.Node) {
	t.Helper()
	text, err := n.Metrics()
	must(t, err)
	limit := podOf(t, n.Name, "gridmesh-agent").Spec.Containers[0].Resources.Limits.Memory().AsApproximateFloat64()
	got := regexp.MustCompile(`(?m)^go_gc_gomemlimit_bytes (\S+)$`).FindStringSubmatch(text)
	if got == nil {
		t.Fatalf("%s: the agent has no go_gc_gomemlimit_bytes", n.Name)
	}
	if bytes, err := strconv.ParseFloat(got[1], 64); err != nil || bytes > limit || bytes < limit/2 {
		t.Errorf("%s: the agent's heap may have %s bytes, of %.0f that it gets: %v", n.Name, got[1], limit, err)
	}
}

// restartsOf counts, of each container of gridmesh, how often it was started again.
func restartsOf(t *testing.T) map[string]int32 {
	t.Helper()
	pods, err := c.Pods(patient(t), "gridmesh", "")
	must(t, err)
	all := map[string]int32{}
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			all[p.Name+"/"+s.Name] = s.RestartCount
		}
	}
	return all
}

// peaks are the most that control groups of agents and Envoys ever had, what the kernel
// holds for them with it.
func peaks(t *testing.T) string {
	t.Helper()
	var all []string
	for _, n := range c.Nodes {
		for workload, program := range map[string]string{"gridmesh-agent": "gridmesh-agent", "gridmesh-envoy": "envoy"} {
			pids, err := n.PodProcesses(string(podOf(t, n.Name, workload).UID), program)
			must(t, err)
			for _, pid := range pids {
				all = append(all, fmt.Sprintf("%s of %s %d MiB", program, n.Name, peakOf(t, pid)>>20))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// peakOf is that of a process's control group, of version 2 or 1, in bytes.
func peakOf(t *testing.T, pid int) int {
	t.Helper()
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must(t, err)
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		file := filepath.Join("/sys/fs/cgroup", group, "memory.peak")
		if controllers != "" {
			file = filepath.Join("/sys/fs/cgroup/memory", group, "memory.max_usage_in_bytes")
		}
		if text, err := os.ReadFile(file); err == nil && (controllers == "" || controllers == "memory") {
			n, err := strconv.Atoi(strings.TrimSpace(string(text)))
			must(t, err)
			return n
		}
	}
	return 0
}
