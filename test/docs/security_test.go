package docs

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/internal/ports"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// manifests are the files that docs/security.md tells of.
var manifests = []string{"agent.yaml", "envoy.yaml", "dns.yaml", "controller.yaml", "rbac.yaml", "admission/admission.yaml", "health/health.yaml", "health/superedge/rights.yaml", "cleanup/cleanup.yaml"}

// deployed are the objects of deploy/ by hand, in the order of manifests.
func deployed(t *testing.T) (list []object) {
	t.Helper()
	for _, file := range manifests {
		list = append(list, decode(t, read(t, "deploy/"+file))...)
	}
	return list
}

// section is the text below a heading of a page.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// sameRows holds a table to what it tells of: its rows begin with these, in any
// order, and there are no others. What follows in a row is for people.
func sameRows(t *testing.T, heading string, want []string) {
	t.Helper()
	var rows []string
	for line := range strings.Lines(section(t, "docs/security.md", heading)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| what") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	for _, row := range want {
		i := slices.IndexFunc(rows, func(line string) bool { return strings.HasPrefix(line, row) })
		if i < 0 {
			t.Errorf("docs/security.md, %q, lacks the row\n%s", heading, row)
			continue
		}
		rows = slices.Delete(rows, i, i+1)
	}
	for _, row := range rows {
		t.Errorf("docs/security.md, %q, has a row of something that is not there:\n%s", heading, row)
	}
}

// What every container is given is what deploy/ gives it.
func TestContainersAreAsTold(t *testing.T) {
	var want []string
	for _, o := range deployed(t) {
		spec := &o.Spec.Template.Spec
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			want = append(want, containerRow(t, o.Name, spec, &c))
		}
	}
	sameRows(t, "What runs", want)
}

// containerRow is what docs/security.md says of a container, and what is true
// of all of them.
func containerRow(t *testing.T, workload string, spec *corev1.PodSpec, c *corev1.Container) string {
	t.Helper()
	s := c.SecurityContext
	if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.Privileged != nil || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%s %s: docs/security.md says that no container is privileged, each drops all capabilities and has a root file system that is read-only", workload, c.Name)
		return ""
	}
	user, network, token := "0", "pod", "yes"
	if spec.SecurityContext != nil && spec.SecurityContext.RunAsUser != nil {
		user = fmt.Sprint(*spec.SecurityContext.RunAsUser)
	}
	if s.RunAsUser != nil {
		user = fmt.Sprint(*s.RunAsUser)
	}
	if spec.HostNetwork {
		network = "host"
	}
	if spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken {
		token = "no"
	}
	var add, paths []string
	for _, capability := range s.Capabilities.Add {
		add = append(add, string(capability))
	}
	for _, m := range c.VolumeMounts {
		for _, v := range spec.Volumes {
			if v.Name == m.Name && v.HostPath != nil {
				paths = append(paths, "`"+v.HostPath.Path+"`")
			}
		}
	}
	return fmt.Sprintf("| %s: %s | %s | %s | %s | %s | %s |", workload, c.Name, user, none(add), network, none(paths), token)
}

func none(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// What each may ask of the API server is what deploy/ gives it.
func TestRightsAreAsTold(t *testing.T) {
	var want []string
	for _, o := range deployed(t) {
		where := "cluster"
		switch o.Kind {
		case "Role":
			where = o.Namespace
		case "ClusterRole":
		default:
			continue
		}
		for _, r := range o.Rules {
			var what []string
			if len(r.APIGroups) > 1 {
				t.Errorf("%s: a rule with several groups: the table cannot tell", o.Name)
			}
			for _, resource := range r.Resources {
				if r.APIGroups[0] != "" {
					resource = r.APIGroups[0] + "/" + resource
				}
				what = append(what, resource)
			}
			what = append(what, r.NonResourceURLs...)
			named := "any"
			if len(r.ResourceNames) > 0 {
				named = strings.Join(r.ResourceNames, ", ")
			}
			want = append(want, fmt.Sprintf("| %s | %s | %s | %s | %s |", o.Name, where, strings.Join(what, ", "), named, strings.Join(r.Verbs, ", ")))
		}
	}
	if len(want) < 10 {
		t.Fatalf("only %d rules were found", len(want))
	}
	sameRows(t, "Rights", want)
}

// help is what a program says of its flags.
func help(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(edge.Root(), "bin", program), "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v: %s", program, err, out)
	}
	return string(out)
}

// Every listener that flags, the Corefile and the capture's ports make is told,
// with its default. Those of a node that runs are compared with the same table
// in test/kubernetes.
func TestListenersAreAsTold(t *testing.T) {
	address := regexp.MustCompile(`(?m)^ +(--[a-z-]+-(?:address|socket)) string .*\(default "([^"]+)"\)`)
	var want []string
	exchange := regexp.MustCompile(`--bind-address string .*\(default: all, port (\d+)\)`).FindStringSubmatch(help(t, "gridmesh-health"))
	if exchange == nil {
		t.Fatal("gridmesh-health does not say where it listens to other nodes")
	}
	want = append(want, fmt.Sprintf("| `0.0.0.0:%s` | gridmesh-health, `--bind-address` |", exchange[1]))
	for _, program := range []string{"gridmesh-agent", "gridmesh-controller", "gridmesh-admission", "gridmesh-health"} {
		for _, m := range address.FindAllStringSubmatch(help(t, program), -1) {
			if m[1] == "--admin-socket" { // Envoy's
				program = "gridmesh-envoy"
			}
			want = append(want, fmt.Sprintf("| `%s` | %s, `%s` |", m[2], program, m[1]))
			program = strings.Replace(program, "gridmesh-envoy", "gridmesh-agent", 1)
		}
	}
	for _, o := range deployed(t) {
		for _, c := range o.Spec.Template.Spec.Containers {
			for _, m := range regexp.MustCompile(`(--[a-z-]+-address)=(\S+)`).FindAllStringSubmatch(strings.Join(c.Args, " "), -1) {
				want = append(want, fmt.Sprintf("| `%s` | %s, `%s` |", m[2], o.Name, m[1]))
			}
		}
	}
	dns := decode(t, read(t, "deploy/dns.yaml"))
	corefile := strings.ReplaceAll(find(t, dns, "ConfigMap", "gridmesh-dns").Data["Corefile"], "{$METRICS_IP}", metricsIP(t, dns))
	for _, plugin := range []string{"ready", "live", "prometheus"} {
		m := regexp.MustCompile(`(?m)^\s+` + plugin + ` (\S+)$`).FindStringSubmatch(corefile)
		if m == nil {
			t.Fatalf("the Corefile has no %s", plugin)
		}
		host, port, err := net.SplitHostPort(m[1]) // which may be in brackets, of IPv4 too
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("| `%s` | gridmesh-dns, `%s` |", net.JoinHostPort(host, port), plugin))
	}
	m := regexp.MustCompile(`(?m)^\.:(\d+) \{\n\s+nodelocal (.*)$`).FindStringSubmatch(corefile)
	if m == nil {
		t.Fatal("the Corefile has no nodelocal")
	}
	for _, ip := range strings.Fields(m[2]) {
		if strings.Contains(ip, ":") {
			ip = "[" + ip + "]"
		}
		want = append(want, fmt.Sprintf("| `%s:%s` | gridmesh-dns, `nodelocal` |", ip, m[1]))
	}
	p := ports.Default()
	for _, ip := range []string{"127.0.0.1", "[::1]"} {
		want = append(want, fmt.Sprintf("| `%s:%d` | gridmesh-envoy, `--listen-port-base` |", ip, p.Keep()), fmt.Sprintf("| `%s:%d` | gridmesh-envoy, `--listen-port-base` |", ip, p.Plain()))
	}
	want = append(want, fmt.Sprintf("| `127.0.0.1:%d` | gridmesh-envoy, `--listen-port-base` |", p.Health()))
	if len(want) < 14 {
		t.Fatalf("only %d listeners were found: %q", len(want), want)
	}
	sameRows(t, "What listens", want)
}

// metricsIP is where the DNS shows its metrics as deploy/ has it.
func metricsIP(t *testing.T, dns []object) string {
	t.Helper()
	for _, e := range find(t, dns, "DaemonSet", "gridmesh-dns").Spec.Template.Spec.Containers[0].Env {
		if e.Name == "METRICS_IP" {
			return e.Value
		}
	}
	t.Fatal("METRICS_IP is not set: the Corefile would open the metrics to everybody")
	return ""
}
