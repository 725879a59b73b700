package docs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// admits reports whether a term lets a pod onto a node with these labels.
func admits(t *testing.T, term []corev1.NodeSelectorRequirement, labels map[string]string) bool {
	t.Helper()
	return !slices.ContainsFunc(term, func(e corev1.NodeSelectorRequirement) bool {
		value, there := labels[e.Key]
		switch e.Operator {
		case corev1.NodeSelectorOpNotIn:
			return there && slices.Contains(e.Values, value)
		case corev1.NodeSelectorOpDoesNotExist:
			return there
		}
		t.Errorf("the test cannot judge %s", e.Operator)
		return true
	})
}

// Controller and webhook stay in the cloud, on two nodes where they can: a site that is
// cut off would have the replica that leads, or both.
func TestControllerKeepsToTheCloud(t *testing.T) {
	for name, file := range map[string]string{"gridmesh-controller": "controller.yaml", "gridmesh-admission": "admission/admission.yaml"} {
		keepsToTheCloud(t, find(t, decode(t, read(t, "deploy/"+file)), "Deployment", name))
	}
}

func keepsToTheCloud(t *testing.T, o *object) {
	t.Helper()
	spec := &o.Spec.Template.Spec
	const controlPlane = "node-role.kubernetes.io/control-plane"
	for what, node := range map[string]struct {
		labels map[string]string
		fits   bool
	}{
		"a control plane's":        {map[string]string{controlPlane: ""}, true},
		"a worker in the cloud":    {map[string]string{"kubernetes.io/os": "linux"}, true},
		"OpenYurt's in the cloud":  {map[string]string{"openyurt.io/is-edge-worker": "false"}, true},
		"SuperEdge's in a site":    {map[string]string{"superedge.io/edge-node": "enable"}, false},
		"one with the role edge":   {map[string]string{"node-role.kubernetes.io/edge": ""}, false},
		"OpenYurt's in a site":     {map[string]string{"openyurt.io/is-edge-worker": "true"}, false},
		"a site's with both roles": {map[string]string{controlPlane: "", "node-role.kubernetes.io/edge": ""}, false},
	} {
		if fits := slices.ContainsFunc(terms(o), func(term []corev1.NodeSelectorRequirement) bool { return admits(t, term, node.labels) }); fits != node.fits {
			t.Errorf("%s fits on %s node: %v, want %v", o.Name, what, fits, node.fits)
		}
	}
	for _, tol := range spec.Tolerations {
		if tol.Key != controlPlane || tol.Effect != corev1.TaintEffectNoSchedule {
			t.Errorf("%s tolerates %+v: a site's taints keep it away", o.Name, tol)
		}
	}
	if o.Spec.Replicas != 2 || spec.Affinity.PodAntiAffinity == nil || len(spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Fatalf("there are %d replicas, kept apart by %v", o.Spec.Replicas, spec.Affinity.PodAntiAffinity)
	}
	apart := spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	selector, err := metav1.LabelSelectorAsMap(apart.LabelSelector)
	if err != nil || apart.TopologyKey != corev1.LabelHostname || len(selector) != 1 {
		t.Fatalf("kept apart by %v: %v", apart, err)
	}
	for key, value := range selector {
		if o.Spec.Template.Labels[key] != value {
			t.Errorf("kept apart are pods with %s=%s; its own have %v", key, value, o.Spec.Template.Labels)
		}
	}
}

// Agent, Envoy and DNS run on every node of Linux, in its network, whatever it is
// tainted with, and are the last that a node gives up.
func TestNodeProgramsRunEverywhere(t *testing.T) {
	for _, name := range []string{"agent", "envoy", "dns"} {
		spec := find(t, decode(t, read(t, "deploy/"+name+".yaml")), "DaemonSet", "gridmesh-"+name).Spec.Template.Spec
		everything := slices.ContainsFunc(spec.Tolerations, func(tol corev1.Toleration) bool {
			return tol == corev1.Toleration{Operator: corev1.TolerationOpExists}
		})
		if !everything || !spec.HostNetwork || spec.DNSPolicy != corev1.DNSDefault || spec.PriorityClassName != "system-node-critical" || spec.Affinity != nil ||
			len(spec.NodeSelector) != 1 || spec.NodeSelector["kubernetes.io/os"] != "linux" {
			t.Errorf("gridmesh-%s: tolerations %v, host network %v, %s, %s, affinity %v, node selector %v", name, spec.Tolerations, spec.HostNetwork, spec.DNSPolicy, spec.PriorityClassName, spec.Affinity, spec.NodeSelector)
		}
	}
}

// An update leaves Envoy alone until somebody deletes its pod, and Envoy turns
// connections away before the kernel ends it for its memory.
func TestEnvoyIsLeftToRun(t *testing.T) {
	o := find(t, decode(t, read(t, "deploy/envoy.yaml")), "DaemonSet", "gridmesh-envoy")
	if o.Spec.UpdateStrategy.Type != "OnDelete" || !strings.Contains(read(t, "docs/install.md"), "Envoy only when its pod is deleted (`OnDelete`)") {
		t.Errorf("Envoy is updated by %s", o.Spec.UpdateStrategy.Type)
	}
	spec := o.Spec.Template.Spec
	m := regexp.MustCompile(`--envoy-heap-limit=(\d+)`).FindStringSubmatch(strings.Join(spec.InitContainers[0].Args, " "))
	if m == nil {
		t.Fatal("Envoy has no limit of its heap")
	}
	heap, err := strconv.ParseInt(m[1], 10, 64)
	if limit := spec.Containers[0].Resources.Limits.Memory().Value() >> 20; err != nil || heap > limit*9/10 {
		t.Errorf("Envoy's heap may have %d MiB, all of it %d (%v)", heap, limit, err)
	}
}

// What the pages say of times and bounds is what deploy/ has.
func TestTimesAreAsTold(t *testing.T) {
	corefile := find(t, decode(t, read(t, "deploy/dns.yaml")), "ConfigMap", "gridmesh-dns").Data["Corefile"]
	for _, c := range []struct{ page, told, deployed, has string }{
		{"docs/limits.md", "ends after 2 s in which it said nothing", corefile, "read 2s"},
		{"docs/limits.md", "(3 s between questions, 1000 questions at most: `timeouts` in `deploy/dns.yaml`", corefile, "idle 3s"},
		{"docs/limits.md", "1000 questions at most", corefile, "maxtcpqueries 1000"},
		{"test/coredns/hostile_test.go", "idle 3s", corefile, "idle 3s"}, // what was tried
		{"docs/dns.md", "within the last\n24 hours is served stale", corefile, "serve_stale 24h verify"},
		{"docs/dns.md", "an answer of *grid* lives for 2 s in the cache (`ttl`; ", corefile, "ttl 2\n"},
		{"docs/install.md", "`deploy/` requests 64 MiB and ends it at 1 GiB, each of two replicas", read(t, "deploy/controller.yaml"), "{requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 1Gi}}"},
		{"docs/security.md", "liveness probe of `deploy/` has 9 s", read(t, "deploy/agent.yaml"), "path: /livez, port: 10256}, periodSeconds: 10, timeoutSeconds: 9,"},
	} {
		if told, has := strings.Contains(read(t, c.page), c.told), strings.Contains(c.deployed, c.has); !told || !has {
			t.Errorf("%s says %q: %v; deploy/ has %q: %v", c.page, c.told, told, c.has, has)
		}
	}
}
