package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// describe writes a snapshot out, in an order of its own.
func describe(s *topology.Snapshot) string {
	var lines []string
	for key, e := range s.Services.All() {
		line := fmt.Sprintf("%s service=%+v", key, e.Service)
		for _, slice := range e.Slices {
			line += fmt.Sprintf(" slice=%+v", *slice)
		}
		lines = append(lines, line)
	}
	for name, n := range s.Nodes.All() {
		lines = append(lines, fmt.Sprintf("node %s %+v", name, *n))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s\n%v\n%v", strings.Join(lines, "\n"), s.ServiceCIDRs, s.Problems)
}

// randomDocument is a manifest out of few names, so that files have objects in
// common.
func randomDocument(r *rand.Rand) string {
	n := r.IntN(4)
	switch r.IntN(6) {
	case 0, 1:
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: s%d}, spec: {clusterIP: 10.96.0.%d, ports: [{port: %d}]}}", n, n+1, 80+r.IntN(2))
	case 2, 3:
		return fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e%d, labels: {kubernetes.io/service-name: s%d}}, addressType: IPv4, ports: [{port: 8080}], endpoints: [{addresses: [10.0.0.%d], nodeName: n1}]}", n, r.IntN(4), 1+r.IntN(9))
	case 4:
		return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: n%d, labels: {unit: u%d}}}", n, r.IntN(3))
	default:
		return []string{"{broken", "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.96.0.0/16]}}", "{apiVersion: v1, kind: Service, metadata: {name: odd}, spec: {prots: []}}"}[r.IntN(3)]
	}
}

func TestDirReadsOnlyWhatChanged(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	service := "{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {clusterIP: 10.96.0.%d, ports: [{port: 80}]}}"
	write("a.yaml", fmt.Sprintf(service, "a", 1))
	write("b.yaml", fmt.Sprintf(service, "b", 2))
	d := NewDir(dir)
	if err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	first, before := newest(&d.Snapshots), d.files[0].content
	if err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	if newest(&d.Snapshots) != first {
		t.Error("a directory that did not change gave another snapshot")
	}
	write("b.yaml", fmt.Sprintf(service, "b", 33))
	if err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	if d.files[0].content != before {
		t.Error("a.yaml did not change and was read again")
	}
	var changed []string
	for key := range first.Services.Changed(newest(&d.Snapshots).Services) {
		changed = append(changed, key.Name)
	}
	if !slices.Equal(changed, []string{"b"}) {
		t.Errorf("changed: %v, want b alone", changed)
	}
}

// Times of files come from a clock that ticks every few milliseconds: of two writes
// within a tick the second leaves no trace but what it wrote. Kernels since 6.13 tell
// them apart; what is written into a page that is mapped, and dirty, leaves none there
// either.
func TestDirFollowsTwoWritesInOneTick(t *testing.T) {
	const text = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.96.0.%d, ports: [{port: 80}]}}"
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, text, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := syscall.Mmap(int(f.Fd()), 0, len(text)-1, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mapped) }()
	for range 100 {
		began := time.Now()
		if err := os.Truncate(path, int64(len(mapped))); err != nil { // as long as it is; its times are now
			t.Fatal(err)
		}
		copy(mapped, fmt.Sprintf(text, 1))
		d := NewDir(path)
		if err := d.refresh(); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > settled/2 {
			continue // nobody would be deceived by now
		}
		copy(mapped, fmt.Sprintf(text, 2))
		if err := d.refresh(); err != nil {
			t.Fatal(err)
		}
		if got := describe(newest(&d.Snapshots)); !strings.Contains(got, "10.96.0.2") {
			t.Errorf("the second was not read: %s", got)
		}
		return
	}
	t.Error("this machine has no time for this test")
}

// A mounted ConfigMap changes by the swap of one link, which no file's own link
// shows; and a file may be put in another's place with its size and time.
func TestDirFollowsWhatLinksLeadTo(t *testing.T) {
	dir := t.TempDir()
	manifest := func(folder, address string) string {
		t.Helper()
		path := filepath.Join(dir, folder, "svc.yaml")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: %s, ports: [{port: 80}]}}", address)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1, 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(to, name string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, filepath.Join(dir, "new")), os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	mounted := filepath.Join(dir, "mounted") // as the kubelet makes it
	manifest("mounted/..1", "10.96.0.1")
	manifest("mounted/..2", "10.96.0.2")
	link("..1", "mounted/..data")
	link("..data/svc.yaml", "mounted/svc.yaml")
	d := NewDir(mounted)
	want := func(what, address string) {
		t.Helper()
		if err := d.refresh(); err != nil {
			t.Fatal(err)
		}
		e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "a"})
		told(t, newest(&d.Snapshots).Problems)
		if e == nil || len(e.Service.ClusterIPs) != 1 || e.Service.ClusterIPs[0].String() != address {
			t.Errorf("%s: %+v, want %s", what, e, address)
		}
	}
	want("mounted", "10.96.0.1")
	link("..2", "mounted/..data")
	want("swapped", "10.96.0.2")
	if err := os.Rename(manifest("3", "10.96.0.3"), filepath.Join(mounted, "..2", "svc.yaml")); err != nil {
		t.Fatal(err)
	}
	want("replaced by one as large and as old", "10.96.0.3")
}

// A file that cannot be read any more is named, keeps what it held, and does
// not stop the others; nor does a pipe, a folder, or the end of the directory.
func TestDirGoesOnWithoutWhatCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	sub := filepath.Join(dir, "sub")
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	a, b, c := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml"), filepath.Join(sub, "c.yaml")
	write := func(path, name string) {
		t.Helper()
		text := fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}", name)
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write(a, "a")
	write(b, "b")
	write(c, "c")
	d := NewDir(dir)
	last := (*topology.Snapshot)(nil)
	want := func(what, services string, problems ...string) {
		t.Helper()
		if err := d.refresh(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		last = newest(&d.Snapshots)
		var names []string
		for _, key := range last.Services.SortedKeys(topology.ObjectKey.Compare) {
			names = append(names, key.Name)
		}
		if got := strings.Join(names, " "); got != services || len(last.Problems) != len(problems) {
			t.Fatalf("%s: Services %q, problems %v; want %q and %d", what, got, last.Problems, services, len(problems))
		}
		for i, p := range last.Problems {
			if !strings.Contains(p.String(), problems[i]) {
				t.Errorf("%s: problem %s, want one with %q", what, p, problems[i])
			}
		}
		if err := d.refresh(); err != nil || newest(&d.Snapshots) != last {
			t.Errorf("%s: published again, and nothing changed: %v", what, err)
		}
	}
	want("all", "a b c")
	if err := errors.Join(os.Remove(a), os.Symlink(a, a)); err != nil { // a link to itself cannot be read by root either
		t.Fatal(err)
	}
	want("one cannot be read", "a b c", a+": cannot be read")
	write(b, "b2")
	want("another changed", "a b2 c", a+": cannot be read")
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	write(a, "a2")
	want("it can again", "a2 b2 c")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("a pipe", "a2 b2 c", "pipe.yaml: cannot be read")
	if err := os.Remove(filepath.Join(dir, "pipe.yaml")); err != nil {
		t.Fatal(err)
	}
	want("no pipe", "a2 b2 c")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	want("the directory is gone", "a2 b2 c", dir+": cannot be read")
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	want("it is back", "a2 b2 c")
	// As for who may not look into a folder.
	closed := []file{}
	for _, f := range d.files {
		if f.path != c {
			closed = append(closed, file{name: f.name, path: f.path, version: f.version})
		}
	}
	closed = append(closed, file{name: below(dir, sub), path: sub, fault: "permission denied", folder: true})
	if !d.take(d.read(closed)) {
		t.Error("a folder that is closed is no change")
	}
	s := d.build()
	if _, still := s.Services.Get(topology.ObjectKey{Namespace: "default", Name: "c"}); !still || len(s.Problems) != 2 {
		t.Errorf("of a closed folder c is left: %v; problems %v", still, s.Problems)
	}
	if err := os.Remove(c); err != nil {
		t.Fatal(err)
	}
	want("it is open, and empty", "a2 b2")
}

// read reads paths once.
func read(paths ...string) (*topology.Snapshot, error) { return Input{Paths: paths}.Snapshot() }

// Several are read as one, each file once.
func TestReadDirs(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a", "b"} {
		text := fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: n%d}}\n---\n{}", i)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	s, err := read(a, b, dir)
	if err != nil || s.Nodes.Len() != 2 || len(s.Problems) != 2 {
		t.Errorf("%d nodes, problems %v, %v", s.Nodes.Len(), s.Problems, err)
	}
	objects, problems, err := Input{Paths: []string{a, dir}}.Objects()
	if err != nil || len(objects) != 2 || len(problems) != 2 {
		t.Errorf("%d objects, problems %v, %v", len(objects), problems, err)
	}
	if _, err := read(a, filepath.Join(dir, "none")); err == nil {
		t.Error("a path that is not there is no error")
	}
}

// What did not change is the same object in the next snapshot, also where it was put
// over one of a cluster.
func TestWhatIsPutOverAnotherStays(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const live = "{apiVersion: v1, kind: Service, metadata: {name: web, uid: u}, spec: {clusterIP: 10.96.0.%d, ports: [{port: 80}]}}"
	write("1.yaml", fmt.Sprintf(live, 1))
	write("2.yaml", "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 81}]}}")
	write("3.yaml", "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 82}]}}")
	d := NewDir(dir)
	web := func() *topology.Service {
		t.Helper()
		if err := d.refresh(); err != nil {
			t.Fatal(err)
		}
		e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"})
		return e.Service
	}
	was := web()
	for i := range 3 {
		write("node.yaml", fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: n%d}}", 10*i))
		if is := web(); is != was {
			t.Errorf("another node, and the Service is another: %+v, was %+v", is, was)
		}
	}
	write("1.yaml", fmt.Sprintf(live, 23))
	if is := web(); is == was || fmt.Sprint(is.ClusterIPs) != "[10.96.0.23]" {
		t.Errorf("the one below is another, and that is not: %+v", is)
	}
}

// Ranges of pods are those of the newest snapshot, and of a Node that is there more than
// once the last that has any.
func TestPodCIDRsOfADir(t *testing.T) {
	dir := t.TempDir()
	d := NewDir(dir)
	if got := d.PodCIDRs("a-1"); len(got) > 0 {
		t.Errorf("before anything was read: %v", got)
	}
	for _, tc := range []struct{ name, text, want, problem string }{
		{"of both families", "{apiVersion: v1, kind: Node, metadata: {name: a-1}, spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24, 'fd00:244:1::/64']}}", "[10.244.1.0/24 fd00:244:1::/64]", ""},
		{"of another Node", "{apiVersion: v1, kind: Node, metadata: {name: a-2}, spec: {podCIDRs: [10.244.2.0/24]}}", "[]", ""},
		{"none", "{apiVersion: v1, kind: Node, metadata: {name: a-1}}", "[]", ""},
		{"in the older field", "{apiVersion: v1, kind: Node, metadata: {name: a-1}, spec: {podCIDR: 10.244.5.1/24}}", "[10.244.5.0/24]", ""},
		{"no range: as before", "{apiVersion: v1, kind: Node, metadata: {name: a-1}, spec: {podCIDRs: [10.244.2.0]}}", "[10.244.5.0/24]", "spec.podCIDRs"},
		{"no range in the older field: as before", "{apiVersion: v1, kind: Node, metadata: {name: a-1}, spec: {podCIDR: 10.244.12.0}}", "[10.244.5.0/24]", "spec.podCIDR:"},
		{"no list: as before", "{apiVersion: v1, kind: Node, metadata: {name: a-1}, spec: {podCIDRs: 10.244.2.0/24}}", "[10.244.5.0/24]", "spec.podCIDRs"},
		{"in a List", "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: a-1}, spec: {podCIDRs: [10.244.3.0/24]}}]}", "[10.244.3.0/24]", ""},
		{"put over a cluster's", "{apiVersion: v1, kind: Node, metadata: {name: a-1, uid: u}, spec: {podCIDRs: [10.244.4.0/24]}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: a-1}}", "[10.244.4.0/24]", ""},
	} {
		text := tc.text + strings.Repeat("\n", len(tc.name)) // its size differs
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "node.yaml"), []byte(text), 0o600), d.refresh()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(d.PodCIDRs("a-1")); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		if got := fmt.Sprint(newest(&d.Snapshots).Problems); (got == "[]") != (tc.problem == "") || !strings.Contains(got, tc.problem) {
			t.Errorf("%s: problems %s, want one of %q", tc.name, got, tc.problem)
		}
	}
}
