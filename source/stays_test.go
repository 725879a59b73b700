package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

const (
	staysWeb   = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}\n"
	staysSlice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{port: 8080}], endpoints: [{addresses: [10.0.0.1]}]}\n"
	staysNode  = "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {unit: a}}, spec: {podCIDRs: [10.244.1.0/24]}}\n"
	staysOther = "{apiVersion: v1, kind: Service, metadata: {name: other}, spec: {clusterIP: 10.96.0.2, ports: [{port: 80}]}}\n"
)

// What of a file is no manifest for now, or of a type that nobody can read, takes nothing out
// of service that it served, and is told with file, line and cure. What is removed is removed.
func TestWhatWasReadStays(t *testing.T) {
	const whole, sep = staysWeb + "---\n" + staysSlice + "---\n" + staysNode, "---\n"
	for name, tc := range map[string]struct {
		text     string // in place of what was whole
		want     string // what is in force then, but for other
		problems []string
	}{
		"a syntax error": {whole + sep + "a: b\n  c: d\n", "e n1 web", []string{
			"m.yaml document 4: is not in force, and all of the file stays as it was before: is no Kubernetes manifest: yaml: line 8: mapping values are not allowed in this context; correct it",
		}},
		"one in the first document": {"{apiVersion: v1, kind: Serv\n" + sep + staysNode, "e n1 web", []string{"m.yaml document 1: is not in force, and all of the file stays as it was before: is no Kubernetes manifest: yaml: line "}},
		"half a file":               {whole[:len(staysWeb)/2], "e n1 web", []string{"is no Kubernetes manifest: yaml: line 1: did not find expected"}},
		"a text":                    {"apiVer", "e n1 web", []string{`is no Kubernetes manifest: it is a string, "apiVer"; an object is wanted`}},
		"another encoding":          {"\xff\xfe{\x00}\x00", "e n1 web", []string{"is UTF-16, as "}},
		"a name of another type":    {strings.Replace(whole, "name: web}", "name: 7}", 1), "e n1 web", []string{"metadata.name: is not in force, and all of the file stays as it was before: is no Kubernetes manifest: it is 7, a number; a string is wanted"}},
		"a field of another type": {strings.Replace(whole, "port: 80}", "port: http}", 1), "e n1 web", []string{
			`service default/web (file `, `document 1): spec.ports[0].port: is not in force, and the object stays as it was before: cannot be read: it is a string, "http"; an integer is wanted`,
		}},
		"a Node's label of another type": {strings.Replace(whole, "unit: a}", "unit: 7}", 1), "e n1 web", []string{"node n1 (file ", objectStays}},
		"a mistyped kind":                {strings.Replace(whole, "kind: Service", "kind: Services", 1), "e n1 web", []string{"service default/web (file ", objectStays}},
		"a port that is none": {strings.Replace(whole, "port: 80}", "port: 99999}", 1), "e n1 web", []string{
			`service default/web (file `, `document 1): spec.ports[0].port: is not in force, and the object stays as it was before: 99999 is no port`,
		}},
		"a protocol that is none":      {strings.Replace(whole, "port: 80}", "port: 80, protocol: TPC}", 1), "e n1 web", []string{"service default/web (file ", objectStays + `"TPC" is not known`}},
		"no ports":                     {strings.Replace(whole, "ports: [{port: 80}]", "ports: []", 1), "e n1 web", []string{"service default/web (file ", objectStays + "is empty"}},
		"a field that does not exist":  {strings.Replace(whole, "port: 80}", "port: 80, prot: x}", 1), "e n1 web", []string{"service default/web (file ", "spec.ports[0].prot: " + objectStays + "does not exist"}},
		"an address that is none":      {strings.Replace(whole, "10.0.0.1", "10.0.0.256", 1), "e n1 web", []string{"endpointslice default/e (file ", "endpoints[0].addresses: " + objectStays + `"10.0.0.256" is no IP address`}},
		"a range of pods that is none": {strings.Replace(whole, "10.244.1.0/24", "10.244.1.0/33", 1), "e n1 web", []string{"node n1 (file ", "spec.podCIDRs: " + objectStays}},
		"mistyped labels of a Node":    {strings.Replace(whole, "labels: {unit", "lables: {unit", 1), "e n1 web", []string{"node n1 (file ", "metadata.lables: " + objectStays}},
		"a slice without its label":    {strings.Replace(whole, "kubernetes.io/service-name", "service-name", 1), "e n1 web", []string{"endpointslice default/e (file ", objectStays}},
		"a slip in a slice of names":   {strings.Replace(whole, "addressType: IPv4", "addressType: FQDN, endpoint: []", 1), "e n1 web", []string{"endpointslice default/e (file ", objectStays}},
		"a document is removed":        {staysWeb + sep + staysNode, "n1 web", nil},
		"all are":                      {"# nothing\n", "", nil},
		"not a byte":                   {"", "e n1 web", []string{"m.yaml: is not in force, and all of the file stays as it was before: it is empty; write what it is to have, or remove it"}},
		"a document without a kind":    {strings.Replace(whole, "kind: Service,", "", 1), "e n1 web", []string{"m.yaml document 1: kind: ", fileStays + "is missing"}},
		"an object without a name":     {strings.Replace(whole, "{name: web}", "{}", 1), "e n1 web", []string{"metadata.name: ", fileStays + "is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := NewDir(dir)
			write(t, dir, "m.yaml", whole)
			write(t, dir, "other.yaml", staysOther)
			if got := inForce(t, d); got != "e n1 other web" {
				t.Fatalf("before: %s", got)
			}
			write(t, dir, "m.yaml", tc.text)
			for range 2 { // and again, where nothing changed
				if got := inForce(t, d); got != sorted(tc.want+" other") {
					t.Errorf("in force are %q, want %q and other", got, tc.want)
				}
				wantTold(t, newest(&d.Snapshots), tc.problems)
			}
			if pods := d.PodCIDRs("n1"); len(pods) != strings.Count(tc.want, "n1") {
				t.Errorf("the Node's pods are %v", pods)
			}
			write(t, dir, "other.yaml", strings.Replace(staysOther, "10.96.0.2", "10.96.0.3", 1))
			inForce(t, d)
			if e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "other"}); e.Service.ClusterIPs[0].String() != "10.96.0.3" {
				t.Error("another file is not followed meanwhile")
			}
			write(t, dir, "m.yaml", whole)
			if got := inForce(t, d); got != "e n1 other web" || len(newest(&d.Snapshots).Problems) > 0 {
				t.Errorf("corrected: %s, problems %v", got, newest(&d.Snapshots).Problems)
			}
			write(t, dir, "m.yaml", tc.text)
			inForce(t, d)
			if err := os.Remove(filepath.Join(dir, "m.yaml")); err != nil {
				t.Fatal(err)
			}
			if got := inForce(t, d); got != "other" || len(newest(&d.Snapshots).Problems) > 0 {
				t.Errorf("removed: %s, problems %v", got, newest(&d.Snapshots).Problems)
			}
		})
	}
}

// Without anything of before the rest of a file, and all others, are served.
func TestWhatWasNeverReadIsTold(t *testing.T) {
	dir := t.TempDir()
	d := NewDir(dir)
	write(t, dir, "m.yaml", staysWeb+"---\n{broken\n")
	write(t, dir, "other.yaml", staysOther)
	if got := inForce(t, d); got != "other web" {
		t.Errorf("in force are %s", got)
	}
	wantTold(t, newest(&d.Snapshots), []string{"m.yaml document 2: is no Kubernetes manifest and is left out"})
	write(t, dir, "m.yaml", staysNode+"---\n{broken\n")
	if got := inForce(t, d); got != "n1 other web" { // which may be in what is broken
		t.Errorf("still broken: in force are %s", got)
	}
}

// A file without a byte is told, also where it never had any.
func TestAnEmptyFileIsTold(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "m.yaml", "")
	d := NewDir(dir)
	for range 2 {
		inForce(t, d)
		wantTold(t, newest(&d.Snapshots), []string{"m.yaml: is empty; write what it is to have, or remove it"})
	}
	write(t, dir, "m.yaml", "# nothing\n")
	inForce(t, d)
	wantTold(t, newest(&d.Snapshots), nil)
}

// A typo in what is put over an API server's object, in one file with it, leaves what was put over it.
func TestWhatIsPutOverALiveOneStays(t *testing.T) {
	const live = "{apiVersion: v1, kind: Service, metadata: {name: web, uid: u}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}\n---\n"
	const over = "{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {topologyKeys: '[\"unit\"]'}}, spec: {ports: [{port: 80}]}}\n"
	dir := t.TempDir()
	d := NewDir(dir)
	for _, text := range []string{over, strings.Replace(over, "[{port: 80}]", "80", 1), strings.Replace(over, "port: 80", "port: 99999", 1)} {
		write(t, dir, "m.yaml", live+text)
		inForce(t, d)
		if e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"}); e.Service.TopologyKeys == nil || len(e.Service.Ports) != 1 {
			t.Errorf("%s: in force is %+v", text, e.Service)
		}
	}
}

// What no API server takes is in force as far as it goes where there is nothing better of
// before, and follows its file; from the moment on that it is right, that is what stays.
func TestWhatWasNeverRightIsFollowed(t *testing.T) {
	dir := t.TempDir()
	d := NewDir(dir)
	ports := func(text string) string {
		t.Helper()
		write(t, dir, "m.yaml", "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, ports: "+text+"}}\n")
		inForce(t, d)
		e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"})
		told := len(newest(&d.Snapshots).Problems) + len(e.Service.Problems)
		return fmt.Sprint(e.Service.Ports, told)
	}
	for _, step := range []struct{ text, want string }{
		{"[{port: 80}, {port: 99999}]", "[{ tcp 80 0}] 1"},
		{"[{port: 81}, {port: 99999}]", "[{ tcp 81 0}] 1"},
		{"[{port: 82}]", "[{ tcp 82 0}] 0"},
		{"[{port: 83}, {port: 99999}]", "[{ tcp 82 0}] 1"},
		{"[{port: 84}, {port: 99998}]", "[{ tcp 82 0}] 1"},
		{"[{port: 85}]", "[{ tcp 85 0}] 0"},
	} {
		if got := ports(step.text); got != step.want {
			t.Errorf("ports %s: in force, and Problems: %s, want %s", step.text, got, step.want)
		}
	}
}

// What an API server has told is as it is meant, whatever it has that is not known here.
func TestWhatANewerAPIServerTellsIsFollowed(t *testing.T) {
	dir := t.TempDir()
	d := NewDir(dir)
	for _, port := range []int{80, 81} {
		write(t, dir, "m.yaml", fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web, uid: u}, spec: {clusterIP: 10.96.0.1, newer: %d, ports: [{port: %d}]}}\n", port, port))
		inForce(t, d)
		if e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"}); e.Service.Ports[0].Port != uint16(port) {
			t.Errorf("in force is %v, want %d", e.Service.Ports, port)
		}
	}
}

// What cannot be read is told as not in force also where nothing of before is.
func TestWhatCannotBeReadIsNotInForce(t *testing.T) {
	for name, text := range map[string]string{
		"a field of another type":   strings.Replace(staysWeb, "port: 80", "port: http", 1),
		"a name that is missing":    strings.Replace(staysWeb, "{name: web}", "{}", 1),
		"a mistyped kind":           strings.Replace(staysWeb, "kind: Service", "kind: Services", 1),
		"a slice without a label":   strings.Replace(staysSlice, "kubernetes.io/service-name", "service-name", 1),
		"a port that is none":       strings.Replace(staysWeb, "port: 80", "port: 99999", 1),
		"a field that is none":      strings.Replace(staysWeb, "spec:", "sepc: {}, spec:", 1),
		"a range that is none":      "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.96.0.0/33]}}\n",
		"a ServiceCIDR of a string": "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: 10.96.0.0/16}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "m.yaml", text)
			d := NewDir(dir)
			inForce(t, d)
			wantTold(t, newest(&d.Snapshots), []string{""})
		})
	}
}

// A range of Services stays, too, and all of it where a link is led to another directory, as who checks out manifests does.
func TestWhatWasReadStaysBehindALink(t *testing.T) {
	const cidr = "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.96.0.0/16]}}\n"
	top := t.TempDir()
	link := filepath.Join(top, "m")
	lead := func(to, text string) {
		t.Helper()
		made := os.Mkdir(filepath.Join(top, to), 0o700)
		write(t, filepath.Join(top, to), "x.yaml", text)
		if err := errors.Join(made, os.Symlink(to, link+".new"), os.Rename(link+".new", link)); err != nil {
			t.Fatal(err)
		}
	}
	lead("m-1", staysWeb+"---\n"+cidr)
	d := NewDir(link)
	ranges := func() string { return fmt.Sprint(newest(&d.Snapshots).ServiceCIDRs) }
	if got := inForce(t, d); got != "web" || ranges() != "[10.96.0.0/16]" {
		t.Fatalf("in force are %s, and %s", got, ranges())
	}
	lead("m-2", staysWeb+"---\n{broken\n")
	if got := inForce(t, d); got != "web" || ranges() != "[10.96.0.0/16]" {
		t.Errorf("a syntax error: in force are %s, and %s", got, ranges())
	}
	wantTold(t, newest(&d.Snapshots), []string{"m-2/x.yaml document 2", fileStays})
	lead("m-3", staysWeb+"---\n"+strings.Replace(cidr, "[10.96.0.0/16]", "10.96.0.0/16", 1))
	if got := inForce(t, d); got != "web" || ranges() != "[10.96.0.0/16]" {
		t.Errorf("a field of another type: in force are %s, and %s", got, ranges())
	}
	wantTold(t, newest(&d.Snapshots), []string{"m-3/x.yaml document 2", objectStays})
	lead("m-3b", staysWeb+"---\n"+strings.Replace(cidr, "/16", "/33", 1))
	if got := inForce(t, d); got != "web" || ranges() != "[10.96.0.0/16]" {
		t.Errorf("a range that is none: in force are %s, and %s", got, ranges())
	}
	wantTold(t, newest(&d.Snapshots), []string{"m-3b/x.yaml document 2", objectStays, `"10.96.0.0/33" is no range of addresses`})
	lead("m-4", staysOther)
	if got := inForce(t, d); got != "other" || ranges() != "[]" {
		t.Errorf("corrected: in force are %s, and %s", got, ranges())
	}
}

// Law: a directory that is followed gives what one reading of it gives, with each file that
// cannot be taken apart as it was when it last could; where it never could, with what it had
// besides. Of such files that is told.
func TestDirFollowedEqualsReadAnew(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		dir, twin := t.TempDir(), t.TempDir()
		d, whole, never := NewDir(dir), map[string]bool{}, map[string][]string{}
		for step := range 30 {
			name := fmt.Sprintf("f%d.yaml", r.IntN(4))
			if r.IntN(4) == 0 {
				_, _ = os.Remove(filepath.Join(dir, name)), os.Remove(filepath.Join(twin, name))
				delete(whole, name)
				delete(never, name)
			} else {
				writeBoth(t, r, dir, twin, name, whole, never)
			}
			if err := d.refresh(); err != nil {
				t.Fatal(err)
			}
			anew := NewDir(twin)
			if err := anew.refresh(); err != nil {
				t.Fatal(err)
			}
			followed := *newest(&d.Snapshots)
			followed.Problems = slices.DeleteFunc(slices.Clone(followed.Problems), func(p topology.Problem) bool { return strings.HasPrefix(p.Text, fileStays) })
			readAnew := *newest(&anew.Snapshots)
			if len(never) > 0 { // what is besides has another place there
				followed.Problems, readAnew.Problems = nil, nil
			}
			got, want := describe(&followed), strings.ReplaceAll(describe(&readAnew), twin, dir)
			if got != want {
				t.Fatalf("step %d: followed\n%s\nread anew\n%s", step, got, want)
			}
			for name, now := range whole {
				told := slices.ContainsFunc(newest(&d.Snapshots).Problems, func(p topology.Problem) bool {
					return strings.HasPrefix(p.Object, "file "+filepath.Join(dir, name)+" ") && strings.HasPrefix(p.Text, fileStays)
				})
				if told == now {
					t.Fatalf("step %d: %s is whole: %v; told that it is not: %v", step, name, now, told)
				}
			}
		}
	}
}

// aHead is how a random document begins: kind and name.
var aHead = regexp.MustCompile("kind: [A-Za-z]+, metadata: {name: [a-z0-9]+")

// writeBoth writes a file of random documents, and to its twin what is to count of it. Whole
// are the files that could ever be taken apart, and whether they can now; never has what counts
// of the others.
func writeBoth(t *testing.T, r *rand.Rand, dir, twin, name string, whole map[string]bool, never map[string][]string) {
	var docs []string
	for range r.IntN(4) {
		docs = append(docs, randomDocument(r))
	}
	text := strings.Join(docs, "\n---\n") + "\n"
	_, ever := whole[name]
	if now := !slices.Contains(docs, "{broken"); now || ever {
		whole[name] = now
	}
	write(t, dir, name, text)
	if ever && !whole[name] {
		return
	}
	if _, once := whole[name]; once {
		delete(never, name)
	} else {
		for _, doc := range never[name] {
			if head := aHead.FindString(doc); head != "" && !strings.Contains(text, head) {
				docs = append(docs, doc)
			}
		}
		never[name] = docs
	}
	write(t, twin, name, strings.Join(docs, "\n---\n")+"\n")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inForce are the names of all objects after a look.
func inForce(t *testing.T, d *Dir) string {
	t.Helper()
	if err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	var all []string
	for key, e := range newest(&d.Snapshots).Services.All() {
		all = append(all, key.Name)
		for _, s := range e.Slices {
			all = append(all, s.Key.Name)
		}
	}
	for name := range newest(&d.Snapshots).Nodes.All() {
		all = append(all, name)
	}
	return sorted(strings.Join(all, " "))
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// wantTold expects one Problem with all of the texts, that says that something is lost.
func wantTold(t *testing.T, s *topology.Snapshot, texts []string) {
	t.Helper()
	told := slices.Clone(s.Problems)
	for _, e := range s.Services.All() {
		told = append(told, e.Service.Problems...)
		for _, slice := range e.Slices {
			told = append(told, slice.Problems...)
		}
	}
	if len(texts) == 0 {
		if len(told) > 0 {
			t.Errorf("problems %v", told)
		}
		return
	}
	if len(told) != 1 || told[0].Loss == topology.LostNothing {
		t.Fatalf("problems %v, want one of what is not in force", told)
	}
	for _, text := range texts {
		if got := told[0].String(); !strings.Contains(got, text) {
			t.Errorf("problem %q, want %q in it", got, text)
		}
	}
}
