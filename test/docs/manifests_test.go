package docs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// object is what the pages tell of an object of deploy/.
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas       int                            `json:"replicas"`
		UpdateStrategy appsv1.DaemonSetUpdateStrategy `json:"updateStrategy"`
		Template       corev1.PodTemplateSpec         `json:"template"`
		Groups         []ruleGroup                    `json:"groups"`
	} `json:"spec"`
	Rules    []rbacv1.PolicyRule `json:"rules"`
	Subjects []rbacv1.Subject    `json:"subjects"`
	Data     map[string]string   `json:"data"`
	Webhooks []struct {
		Name string `json:"name"`
	} `json:"webhooks"`
}

type ruleGroup struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// rule is an alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// decode reads the objects of a stream of YAML.
func decode(t *testing.T, text string) (list []object) {
	t.Helper()
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.Kind != "" {
			list = append(list, o)
		}
	}
}

// kustomize builds a directory.
func kustomize(t *testing.T, dir string) string {
	t.Helper()
	out, said, err := kustomized(dir)
	if err != nil {
		t.Fatalf("kustomize %s: %v: %s", dir, err, said)
	}
	if said != "" { // of what is outdated
		t.Errorf("kustomize %s says: %s", dir, said)
	}
	return out
}

func kustomized(dir string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(edge.Root(), "bin", "kube"), "kubectl", "kustomize", dir)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// overlay builds a kustomization of a user's own.
func overlay(t *testing.T, text string) []object {
	t.Helper()
	return decode(t, overlayText(t, text))
}

func overlayText(t *testing.T, text string) string {
	t.Helper()
	return kustomize(t, overlayDir(t, text))
}

func overlayDir(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(edge.Root(), "deploy"))); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "my-gridmesh")
	if err := errors.Join(os.Mkdir(mine, 0o755), os.WriteFile(filepath.Join(mine, "kustomization.yaml"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return mine
}

// find returns the object of a kind and name.
func find(t *testing.T, list []object, kind, name string) *object {
	t.Helper()
	for i := range list {
		if list[i].Kind == kind && list[i].Name == name {
			return &list[i]
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// The kustomization of the page builds, and what it says of the cluster reaches
// all that the Corefile asks its environment for; so does deploy/ without it.
func TestCorefileIsPatched(t *testing.T) {
	m := regexp.MustCompile("(?s)kustomization.yaml <<'EOF'\n(.*?)EOF\n").FindStringSubmatch(read(t, "docs/install.md"))
	if m == nil {
		t.Fatal("docs/install.md has no kustomization")
	}
	mine := map[string]string{"CLUSTER_DOMAIN": "edge.example", "CLUSTER_DNS": "10.43.0.10", "POD_CIDR": "10.42.0.0/16", "POD_CIDR_2": "fd00:42::/56"}
	text := m[1]
	for name, value := range mine {
		text = regexp.MustCompile(`(name: `+name+`, value:) [^}]+`).ReplaceAllString(text, `${1} "`+value+`"`)
	}
	for what, objects := range map[string][]object{"deploy/": overlay(t, kustomization), "docs/install.md": overlay(t, text)} {
		env := map[string]string{}
		for _, e := range find(t, objects, "DaemonSet", "gridmesh-dns").Spec.Template.Spec.Containers[0].Env {
			env[e.Name] = e.Value
		}
		corefile := find(t, objects, "ConfigMap", "gridmesh-dns").Data["Corefile"]
		asked := regexp.MustCompile(`\{\$(\w+)\}`).FindAllStringSubmatch(corefile, -1)
		if own := regexp.MustCompile(`10\.|cluster\.local`).FindString(corefile); len(asked) != 5 || own != "" {
			t.Errorf("%s: the Corefile asks for %v, and has %q, which is a cluster's own", what, asked, own)
		}
		for _, a := range asked {
			if value := env[a[1]]; value == "" || strings.ContainsAny(value, ", ") {
				t.Errorf("%s: the Corefile asks for %s, which is %q", what, a[1], value)
			}
		}
		for name, value := range mine {
			if what != "deploy/" && env[name] != value {
				t.Errorf("%s: %s is %q, not %s", what, name, env[name], value)
			}
		}
	}
}

// The cluster's domain is one value of deploy/, as docs/install.md says.
func TestClusterDomainIsInOnePlace(t *testing.T) {
	var found []string
	dir := filepath.Join(edge.Root(), "deploy")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "helm" {
			return filepath.SkipDir // made of the others
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "cluster.local") {
				found = append(found, filepath.Base(path)+": "+strings.TrimSpace(line))
			}
		}
		return err
	})
	if want := "dns.yaml: - {name: CLUSTER_DOMAIN, value: cluster.local}"; err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("deploy/ has the domain in %q, want %q (%v)", found, want, err)
	}
}

// How fast a rollout goes, and what stops it, is told as it is.
func TestBoundOfRolloutsIsTold(t *testing.T) {
	told := regexp.MustCompile("roll with `(maxUnavailable: [^`]+)`").FindStringSubmatch(read(t, "docs/install.md"))
	if told == nil {
		t.Fatal("docs/install.md does not tell it")
	}
	for _, name := range []string{"agent", "dns"} {
		if !strings.Contains(read(t, "deploy/"+name+".yaml"), "rollingUpdate: {"+told[1]+"}") {
			t.Errorf("docs/install.md has %s; deploy/%s.yaml has not", told[1], name)
		}
	}
}

const kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../deploy]\n"

// deploy/ and the way back are kustomizations that build, every image has a
// name that the kustomization chose, and the components do what they say.
func TestDeployBuilds(t *testing.T) {
	for _, dir := range []string{"deploy", "deploy/cleanup"} {
		for _, o := range decode(t, kustomize(t, filepath.Join(edge.Root(), dir))) {
			for _, c := range append(o.Spec.Template.Spec.InitContainers, o.Spec.Template.Spec.Containers...) {
				if !strings.Contains(c.Image, "/") || !strings.Contains(c.Image, ":") {
					t.Errorf("%s: %s: %s has image %s, which the kustomization does not name", dir, o.Name, c.Name, c.Image)
				}
			}
		}
	}

	plain := overlay(t, kustomization)
	chosen := overlay(t, kustomization+"components: [../deploy/node-by-node]\n")
	for _, name := range []string{"gridmesh-agent", "gridmesh-envoy", "gridmesh-dns"} {
		before := find(t, plain, "DaemonSet", name).Spec.Template.Spec.NodeSelector
		after := find(t, chosen, "DaemonSet", name).Spec.Template.Spec.NodeSelector
		if len(before) != 1 || len(after) != 2 || after["gridmesh.io/node"] != "serve" || after["kubernetes.io/os"] != "linux" {
			t.Errorf("%s goes to nodes %v, node by node to %v", name, before, after)
		}
	}
}

// A component that sets a flag of the agent keeps all that are there, and those of
// the page's sample do so together.
func TestComponentsAddFlags(t *testing.T) {
	agent := func(more string) corev1.Container {
		return find(t, overlay(t, kustomization+more), "DaemonSet", "gridmesh-agent").Spec.Template.Spec.Containers[0]
	}
	own := agent("").Args
	if len(own) < 3 {
		t.Fatalf("the agent's flags are %q", own)
	}
	page, names, added := read(t, "docs/install.md"), []string{}, []string{}
	for name, flag := range map[string]string{"datapath-envoy": "--datapath=envoy", "take-over": "--take-over=kube-proxy", "policies-refuse": "--network-policies=refuse"} {
		if !strings.Contains(page, "  # - ../deploy/"+name+" ") {
			t.Errorf("docs/install.md does not offer %s", name)
		}
		names, added = append(names, "../deploy/"+name), append(added, flag)
		if got := agent("components: [../deploy/" + name + "]\n").Args; !slices.Equal(got, slices.Concat(own, []string{flag})) {
			t.Errorf("with %s the flags are %q", name, got)
		}
	}
	if got := agent("components: [" + strings.Join(names, ", ") + "]\n").Args; !slices.Equal(got, slices.Concat(own, added)) {
		t.Errorf("with both they are %q", got)
	}
	for more, sees := range map[string]bool{"": false, "components: [../deploy/take-over]\n": true} {
		if spec := find(t, overlay(t, kustomization+more), "DaemonSet", "gridmesh-agent").Spec.Template.Spec; spec.HostPID != sees {
			t.Errorf("%q: the agent sees the node's processes: %v", more, spec.HostPID)
		}
	}
	sample := regexp.MustCompile(`(?m)^    - target: \{kind: DaemonSet, name: gridmesh-agent\}\n(    .*\n)+`).FindString(page)
	if got := agent("patches:\n" + sample).Args; !slices.Equal(got, slices.Concat(own, []string{"--topology-keys=union"})) {
		t.Errorf("with the patch of docs/install.md they are %q", got)
	}
}

// A kubelet forgets what is a container's environment alone, and starts no container of it again without a cloud
// (TestAnAgentThatRanForLongComesBack): what is on nodes mounts it, too.
func TestEnvironmentsAreMounted(t *testing.T) {
	asked := 0
	for _, o := range overlay(t, kustomization+"components: [../deploy/metrics, ../deploy/health, ../deploy/admission, ../deploy/take-over]\n") {
		if o.Kind != "DaemonSet" {
			continue
		}
		spec := o.Spec.Template.Spec
		mounted := func(c corev1.Container, name string) bool {
			return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
				of := v.ConfigMap != nil && v.ConfigMap.Name == name || v.Secret != nil && v.Secret.SecretName == name
				return of && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
			})
		}
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			for _, name := range environment(c) {
				if asked++; !mounted(c, name) {
					t.Errorf("%s, container %s: %s is its environment's alone", o.Name, c.Name, name)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("no environment is of a ConfigMap")
	}
}

// environment are the ConfigMaps and Secrets that a container's is of.
func environment(c corev1.Container) (names []string) {
	for _, e := range c.Env {
		switch from := e.ValueFrom; {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			names = append(names, from.ConfigMapKeyRef.Name)
		case from.SecretKeyRef != nil:
			names = append(names, from.SecretKeyRef.Name)
		}
	}
	for _, e := range c.EnvFrom {
		switch {
		case e.ConfigMapRef != nil:
			names = append(names, e.ConfigMapRef.Name)
		case e.SecretRef != nil:
			names = append(names, e.SecretRef.Name)
		}
	}
	return names
}
