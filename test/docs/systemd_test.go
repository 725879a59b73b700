package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// settings are the lines of a unit, in order; a key may come more than once.
type settings [][2]string

func (s settings) all(key string) (list []string) {
	for _, line := range s {
		if line[0] == key {
			list = append(list, line[1])
		}
	}
	return list
}

func (s settings) one(t *testing.T, key string) string {
	t.Helper()
	list := s.all(key)
	if len(list) != 1 {
		t.Fatalf("a unit has %s %d times", key, len(list))
	}
	return list[0]
}

func unit(t *testing.T, name string) (list settings) {
	t.Helper()
	for line := range strings.Lines(read(t, "deploy/systemd/"+name+".service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			list = append(list, [2]string{key, value})
		}
	}
	return list
}

// args are those of a command, with variables written as in a DaemonSet.
func args(command string) []string {
	return strings.Fields(regexp.MustCompile(`\$\{(\w+)\}`).ReplaceAllString(command, "$$($1)"))[1:]
}

// without returns a list less what begins with any of the given.
func without(list []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
	})
}

// What systemd starts is what a kubelet starts: the same flags but for where
// credentials and /proc/sys are, which the programs know, and the same bounds.
func TestUnits(t *testing.T) {
	onNode := strings.NewReplacer("/etc/envoy/", "/run/gridmesh/") // what a pod has for itself, systemd makes anew at each start
	objects := decode(t, kustomize(t, filepath.Join(edge.Root(), "deploy")))
	agent, envoy := unit(t, "gridmesh-agent"), unit(t, "gridmesh-envoy")
	pod := func(name string) (string, []string, string) {
		spec := find(t, objects, "DaemonSet", name).Spec.Template.Spec
		var caps []string
		for _, c := range spec.Containers[0].SecurityContext.Capabilities.Add {
			caps = append(caps, "CAP_"+string(c))
		}
		return onNode.Replace(strings.Join(spec.Containers[0].Args, " ")), caps, spec.Containers[0].Resources.Limits.Memory().String()
	}
	for name, u := range map[string]settings{"gridmesh-agent": agent, "gridmesh-envoy": envoy} {
		flags, caps, memory := pod(name)
		want := without(strings.Fields(flags), "--proc-sys=")
		if got := without(args(u.one(t, "ExecStart")), "--kubeconfig=", "--metrics-bind-address="); !slices.Equal(got, want) {
			t.Errorf("%s is started with %q, by a kubelet with %q", name, got, want)
		}
		if got := strings.Fields(u.one(t, "CapabilityBoundingSet")); !slices.Equal(got, caps) {
			t.Errorf("%s has %v, from a kubelet %v", name, got, caps)
		}
		if got := u.one(t, "MemoryMax"); got+"i" != memory {
			t.Errorf("%s has %s of memory, from a kubelet %s", name, got, memory)
		}
		if u.one(t, "RuntimeDirectoryPreserve") != "yes" || u.one(t, "Before") != "kubelet.service" || u.one(t, "Restart") != "always" {
			t.Errorf("%s: %v", name, u)
		}
	}
	bootstrap := strings.Fields(onNode.Replace(strings.Join(find(t, objects, "DaemonSet", "gridmesh-envoy").Spec.Template.Spec.InitContainers[0].Args, " ")))
	if got := args(envoy.one(t, "ExecStartPre")); !slices.Equal(got, bootstrap) {
		t.Errorf("the bootstrap is of %q, from a kubelet of %q", got, bootstrap)
	}
	if requires := slices.Concat(envoy.all("Requires"), envoy.all("BindsTo"), envoy.all("PartOf")); len(requires) > 0 {
		t.Errorf("Envoy ends with %v", requires)
	}
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, command := range [][]string{{agent.one(t, "ExecStart")}, {envoy.one(t, "ExecStartPre"), "bootstrap"}} {
		out, err := exec.Command(filepath.Join(edge.Root(), "bin", "gridmesh-agent"), append(command[1:], "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, name := range flag.FindAllString(command[0], -1) {
			if !slices.Contains(flag.FindAllString(string(out), -1), name) {
				t.Errorf("there is no %s", name)
			}
		}
	}
	environment := read(t, "deploy/systemd/gridmesh.env")
	for _, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(agent.one(t, "ExecStart")+envoy.one(t, "ExecStartPre"), -1) {
		if !strings.Contains(environment, "\n"+m[1]+"=") {
			t.Errorf("gridmesh.env has no %s", m[1])
		}
	}
	if at := regexp.MustCompile(`--metrics-bind-address string .*\(default "([^"]+)"\)`).FindStringSubmatch(help(t, "gridmesh-agent")); at == nil || !strings.Contains(environment, "\nMETRICS_ADDRESS="+at[1]+"\n") {
		t.Errorf("gridmesh.env has not the default %q", at)
	}
	if cidrs := find(t, objects, "ConfigMap", "gridmesh-apiserver").Data["serviceCIDRs"]; !strings.Contains(environment, "SERVICE_CIDRS="+cidrs+"\n") {
		t.Errorf("gridmesh.env has not the ranges %s", cidrs)
	}
}

// The agent is ready for systemd when the guard is in force, for which the kubelet
// waits, and one that hangs is started again. Nothing that a site without an uplink
// lacks is waited for.
func TestUnitsAreSupervised(t *testing.T) {
	agent, envoy := unit(t, "gridmesh-agent"), unit(t, "gridmesh-envoy")
	if agent.one(t, "Type") != "notify" || agent.one(t, "WatchdogSec") == "" || agent.one(t, "TimeoutStartSec") == "" || agent.one(t, "StartLimitIntervalSec") != "0" {
		t.Errorf("the agent: %v", agent)
	}
	if after := strings.Fields(agent.one(t, "After")); !slices.Contains(after, "network.target") || !slices.Contains(after, "nftables.service") {
		t.Errorf("the agent starts after %v", after)
	}
	for name, u := range map[string]settings{"agent": agent, "Envoy": envoy} {
		for _, line := range u {
			if strings.Contains(line[1], "network-online.target") {
				t.Errorf("%s waits for an uplink: %v", name, line)
			}
		}
	}
}

// systemd finds nothing to say about the units.
func TestUnitsAreWhatSystemdReads(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIPPED: systemd-analyze(1) is not installed; TestUnits reads the units all the same")
	}
	dir, program := t.TempDir(), regexp.MustCompile(`/usr/local/bin/[a-z-]+`)
	var files []string
	for _, name := range []string{"gridmesh-agent", "gridmesh-envoy"} {
		file := filepath.Join(dir, name+".service") // with programs that are here
		if err := os.WriteFile(file, []byte(program.ReplaceAllString(read(t, "deploy/systemd/"+name+".service"), "/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	verify := func() string {
		out, err := exec.Command("systemd-analyze", append([]string{"verify"}, files...)...).CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return string(out)
	}
	if said := verify(); said != "" {
		t.Errorf("systemd says: %s", said)
	}
	if err := os.WriteFile(files[0], []byte("[Service]\nExecStart=/bin/true\nRestarts=always\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if verify() == "" {
		t.Error("a key that there is not goes unseen")
	}
}

// Where units run, no pods of the same do.
func TestUnitsAndPodsAreApart(t *testing.T) {
	objects := overlay(t, kustomization+"components: [../deploy/node-by-node, ../deploy/systemd]\n")
	for name, want := range map[string]bool{"gridmesh-agent": true, "gridmesh-envoy": true, "gridmesh-dns": false} {
		apart := false
		if a := find(t, objects, "DaemonSet", name).Spec.Template.Spec.Affinity; a != nil {
			for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				for _, e := range term.MatchExpressions {
					apart = apart || e.Key == "gridmesh.io/units" && e.Operator == "NotIn" && slices.Equal(e.Values, []string{"systemd"})
				}
			}
		}
		if apart != want {
			t.Errorf("%s keeps away from nodes with units: %v, want %v", name, apart, want)
		}
	}
}
