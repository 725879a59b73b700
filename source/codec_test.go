package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample is what the files in testdata hold, whatever fields came later: a new one
// has a test of its own (TestExposuresAreKept).
func sample() *State {
	keys := `["unit"]`
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"unit": "a"}})
	b.SetNode(&topology.Node{Name: "b-1", Labels: map[string]string{"unit": "b"}})
	b.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00::/112")})
	for _, name := range []string{"web", "db"} {
		key := topology.ObjectKey{Namespace: "default", Name: name}
		b.SetService(&topology.Service{Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, TopologyKeys: &keys, Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}}})
		b.SetSlice(&topology.Slice{Key: topology.ObjectKey{Namespace: "default", Name: name + "-x"}, Service: name, Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: 8080}}, Endpoints: []topology.Endpoint{
			{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a-1", Hostname: "web-0", Ready: true, Serving: true, HintZones: []string{"z"}},
			{Addr: netip.MustParseAddr("10.1.0.2"), Node: "b-1", Terminating: true},
		}})
	}
	return &State{Snapshot: b.Build(), Used: []string{"10.96.0.1:80"}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}
}

func objects(s *topology.Snapshot) map[string]any {
	all := map[string]any{"cidrs": s.ServiceCIDRs}
	for k, e := range s.Services.All() {
		all["service "+k.String()] = e.Service
		for _, slice := range e.Slices {
			all["slice "+slice.Key.String()] = slice
		}
	}
	for k, n := range s.Nodes.All() {
		all["node "+k] = n
	}
	return all
}

func TestStateRoundTrip(t *testing.T) {
	st := sample()
	st.Node, st.Ranges = "a-1", &[]netip.Prefix{} // none is another word than nothing
	st.NodeIPs, st.Homes = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, []netip.Addr{netip.MustParseAddr("10.99.0.1")}
	st.Servers = []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("192.0.2.8")}
	st.Answered = []int64{1700000000, 1800000000}
	data, err := EncodeState(st)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(objects(got.Snapshot), objects(st.Snapshot)) || !reflect.DeepEqual(got.Used, st.Used) || !reflect.DeepEqual(got.PodCIDRs, st.PodCIDRs) || got.Node != st.Node || !reflect.DeepEqual(got.Ranges, st.Ranges) ||
		!reflect.DeepEqual(got.NodeIPs, st.NodeIPs) || !reflect.DeepEqual(got.Homes, st.Homes) || !reflect.DeepEqual(got.Servers, st.Servers) || !reflect.DeepEqual(got.Answered, st.Answered) {
		t.Errorf("read back %v, want %v", objects(got.Snapshot), objects(st.Snapshot))
	}
	again, err := EncodeState(got)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the same state encodes differently: %v", err)
	}
}

var update = flag.Bool("update", false, "write the state file of this version, if there is none")

// A node that is updated reads what its agent before wrote. When the format
// changes so that readers of before must not read it, Version goes up by one, the
// file of the version before stays, and -update writes the new one.
func TestStateOfTheVersionBeforeIsRead(t *testing.T) {
	if Version-Oldest > 1 || Oldest > Version {
		t.Fatalf("reads %d to %d; one older than its own is the promise", Oldest, Version)
	}
	for v := Oldest; v <= Version; v++ {
		path := filepath.Join("testdata", fmt.Sprintf("state.v%d", v))
		want, err := EncodeState(sample())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); *update && v == Version && errors.Is(err, os.ErrNotExist) {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, want, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeState(data)
		if err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
		if !reflect.DeepEqual(objects(got.Snapshot), objects(sample().Snapshot)) || !reflect.DeepEqual(got.Used, sample().Used) || !reflect.DeepEqual(got.PodCIDRs, sample().PodCIDRs) {
			t.Errorf("version %d is read as something else: %v", v, objects(got.Snapshot))
		}
		if v == Version && !bytes.Equal(data, want) {
			t.Error("this version is written differently than before. A new field of an object does not belong into sample(): readers of before pass over it, and its test is one like TestExposuresAreKept. " +
				"Only what readers of before must not read raises Version: then keep Oldest one below, and run with -update")
		}
	}
}

// A text that is none is one object's mistake: what else is in the stream is read,
// also of a file that was written when such texts got in.
func TestATextThatIsNone(t *testing.T) {
	broken := "x\xe2\x82"
	b := topology.NewBuilder()
	web, db := topology.ObjectKey{Namespace: "shop", Name: "web"}, topology.ObjectKey{Namespace: "shop", Name: "db"}
	b.SetService(&topology.Service{Key: web, TopologyKeys: &broken, Misspelt: broken, GridKey: broken, Problems: []topology.Problem{{Object: broken, Field: broken, Text: broken}}})
	b.SetService(&topology.Service{Key: db})
	b.SetSlice(&topology.Slice{Key: web, Service: "web", Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Node: broken, Hostname: broken, HintZones: []string{broken}}}})
	b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{broken: broken}})
	data, err := EncodeState(&State{Snapshot: b.Build()})
	if err != nil {
		t.Fatal(err)
	}
	st, err := DecodeState(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []topology.ObjectKey{web, db} {
		if entry, ok := st.Snapshot.Services.Get(key); !ok || entry.Service == nil {
			t.Errorf("%s is lost", key)
		}
	}
}

// What one object has most of keeps nobody from reading the others.
func TestAnObjectWithMuchInIt(t *testing.T) {
	b := topology.NewBuilder()
	labels := map[string]string{}
	for i := range 100_000 {
		labels[fmt.Sprint(i)] = ""
	}
	b.SetNode(&topology.Node{Name: "a-1", Labels: labels})
	ports := make([]topology.ServicePort, 100_000)
	b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "shop", Name: "web"}, Ports: ports})
	data, err := EncodeState(&State{Snapshot: b.Build()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeState(data); err != nil {
		t.Fatal(err)
	}
}

// What a Service's selector is known by goes through file and socket. A file of
// before knows none, and a reader of before passes over it: neither takes an
// update for a change of the selector.
func TestSelectorsAreKept(t *testing.T) {
	key := topology.ObjectKey{Namespace: "default", Name: "web"}
	b := topology.NewBuilder()
	set := func(selector uint64) *topology.Snapshot {
		b.SetService(&topology.Service{Key: key, Selector: selector})
		return b.Build()
	}
	selector := func(s *topology.Snapshot) uint64 {
		e, _ := s.Services.Get(key)
		return e.Service.Selector
	}
	data, err := EncodeState(&State{Snapshot: set(7)})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := DecodeState(data); err != nil || selector(st.Snapshot) != 7 {
		t.Errorf("the state says %+v, %v", st, err)
	}
	buf := &bytes.Buffer{}
	e, err := NewEncoder(buf)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(e.Snapshot(set(7)), e.Sync(), e.change(set(7), set(8)), e.Sync())
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(buf)
	if err != nil {
		t.Fatal(err)
	}
	var seen []uint64
	for read := topology.NewBuilder(); len(seen) < 2; {
		r, err := d.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if apply(read, r); r.Sync != nil {
			seen = append(seen, selector(read.Build()))
		}
	}
	if !slices.Equal(seen, []uint64{7, 8}) {
		t.Errorf("the socket says %v", seen)
	}
	before, err := os.ReadFile("testdata/state.v1")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := DecodeState(before); err != nil || selector(st.Snapshot) != 0 {
		t.Errorf("a file of before says %+v, %v", st, err)
	}
	var old struct {
		Service *struct {
			Key topology.ObjectKey `cbor:"1,keyasint"`
		} `cbor:"1,keyasint"`
	}
	entry, _ := set(7).Services.Get(key)
	body, err := cbor.Marshal(Record{Service: entry.Service})
	if err != nil {
		t.Fatal(err)
	}
	if err := decMode.Unmarshal(body, &old); err != nil || old.Service.Key != key {
		t.Errorf("a reader of before: %+v, %v", old.Service, err)
	}
}

// What a Service offers besides ClusterIPs goes through the file; a reader of
// before passes over it, and has the rest.
func TestExposuresAreKept(t *testing.T) {
	key := topology.ObjectKey{Namespace: "default", Name: "web"}
	service := &topology.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Affinity: 10800, Created: 1704164645, Datapath: topology.DatapathKernel,
		Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80, NodePort: 30080}},
		Exposure: &topology.Exposure{
			ExternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, LoadBalancers: []netip.Addr{netip.MustParseAddr("2001:db8::1")},
			Sources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Local: true, HealthCheckNodePort: 32000,
		},
	}
	b := topology.NewBuilder()
	b.SetService(service)
	data, err := EncodeState(&State{Snapshot: b.Build()})
	if err != nil {
		t.Fatal(err)
	}
	st, err := DecodeState(data)
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := st.Snapshot.Services.Get(key); !reflect.DeepEqual(e.Service, service) {
		t.Errorf("read back %+v of %+v", e.Service, service)
	}
	var before struct {
		Service *struct {
			Key   topology.ObjectKey `cbor:"1,keyasint"`
			Ports []struct {
				Port uint16 `cbor:"3,keyasint"`
			} `cbor:"3,keyasint"`
		} `cbor:"1,keyasint"`
	}
	body, err := cbor.Marshal(Record{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	if err := decMode.Unmarshal(body, &before); err != nil || before.Service.Key != key || before.Service.Ports[0].Port != 80 {
		t.Errorf("a reader of before: %+v, %v", before.Service, err)
	}
	// Each of it makes another Service: what changed would else not be written.
	for what, change := range map[string]func(s *topology.Service){
		"affinity": func(s *topology.Service) { s.Affinity = 1 },
		"age":      func(s *topology.Service) { s.Created = 0 },
		"path":     func(s *topology.Service) { s.Datapath = topology.DatapathNone },
		"node port": func(s *topology.Service) {
			s.Ports = []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}}
		},
		"none":          func(s *topology.Service) { s.Exposure = nil },
		"external IP":   func(s *topology.Service) { s.Exposure.ExternalIPs = nil },
		"load balancer": func(s *topology.Service) { s.Exposure.LoadBalancers = nil },
		"sources":       func(s *topology.Service) { s.Exposure.Sources = nil },
		"policy":        func(s *topology.Service) { s.Exposure.Local = false },
		"health":        func(s *topology.Service) { s.Exposure.HealthCheckNodePort = 0 },
	} {
		other, exposure := *service, *service.Exposure
		other.Exposure = &exposure
		if change(&other); service.Equal(&other) || other.Equal(service) {
			t.Errorf("%s: another Service counts as the same", what)
		}
	}
}

// quarrelsome has a Service of which others have something.
func quarrelsome(s *topology.Service) *topology.Snapshot {
	portion, far := 3, topology.ObjectKey{Namespace: "far", Name: "web"}
	addr := netip.MustParseAddr
	*s = topology.Service{
		Key:        topology.ObjectKey{Namespace: "default", Name: "web"},
		ClusterIPs: []netip.Addr{addr("10.96.0.1"), addr("fd00::1")}, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80, NodePort: 30080}},
		Exposure: &topology.Exposure{ExternalIPs: []netip.Addr{addr("192.0.2.1"), addr("192.0.2.2")}},
		Others:   []topology.Owned{{Addr: addr("192.0.2.1"), Port: 80, Protocol: topology.TCP, Owner: far}, {Addr: addr("fd00::1"), Owner: far}},
		Portion:  &portion,
	}
	b := topology.NewBuilder()
	b.SetService(s)
	return b.Build()
}

// What others have of a Service goes through the file. In one of before nobody has any of it,
// and who read before passes over it.
func TestWhatOthersHaveIsKept(t *testing.T) {
	service := &topology.Service{}
	data, err := EncodeState(&State{Snapshot: quarrelsome(service)})
	if err != nil {
		t.Fatal(err)
	}
	st, err := DecodeState(data)
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := st.Snapshot.Services.Get(service.Key); !reflect.DeepEqual(e.Service, service) {
		t.Errorf("read back %+v of %+v", e.Service, service)
	}
	old, err := os.ReadFile("testdata/state.v1")
	if err != nil {
		t.Fatal(err)
	}
	if st, err = DecodeState(old); err != nil {
		t.Fatal(err)
	}
	e, _ := st.Snapshot.Services.Get(service.Key)
	if e.Service.Others != nil || e.Service.Portion != nil {
		t.Errorf("a file of before says %+v", e.Service)
	}
	if sv, _ := topology.See(st.Snapshot, "a-1", topology.Options{}).Service(topology.ObjectKey{Namespace: "default", Name: "db"}); len(sv.ClusterIPs) != 1 {
		t.Errorf("of a file of before %s is not served: %v", sv.Key, sv.Problems)
	}
	var before struct {
		Service *struct {
			Key   topology.ObjectKey     `cbor:"1,keyasint"`
			Ports []topology.ServicePort `cbor:"3,keyasint"`
		} `cbor:"1,keyasint"`
	}
	body, err := cbor.Marshal(Record{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	if err := decMode.Unmarshal(body, &before); err != nil || before.Service.Key != service.Key || len(before.Service.Ports) != 1 {
		t.Errorf("a reader of before: %+v, %v", before.Service, err)
	}
}

// Whatever happens to the file, it is whole or it is refused.
func TestDamagedStateIsRefused(t *testing.T) {
	data, err := EncodeState(sample())
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, err := DecodeState(data[:n]); err == nil {
			t.Fatalf("accepted when cut off after %d of %d bytes", n, len(data))
		}
		flipped := bytes.Clone(data)
		flipped[n] ^= 0x40
		if _, err := DecodeState(flipped); err == nil {
			t.Fatalf("accepted with byte %d damaged", n)
		}
	}
	newer := bytes.Clone(data)
	binary.BigEndian.PutUint32(newer[len(magic):], Version+1)
	if _, err := DecodeState(newer); !errors.Is(err, ErrNewer) {
		t.Errorf("newer format: %v", err)
	}
	if _, err := DecodeState([]byte("apiVersion: v1\nkind: Config\n")); !errors.Is(err, ErrForeign) {
		t.Errorf("foreign file: %v", err)
	}
}

func TestReadStateSetsAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if st, err := ReadState(path); st != nil || err != nil {
		t.Fatalf("no file: %v, %v", st, err)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadState(path)
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "set aside as "+path+".bad") {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(path + ".bad"); err != nil {
		t.Error(err)
	}
	if st, err := ReadState(path); st != nil || err != nil {
		t.Errorf("read again: %v, %v", st, err)
	}
	// What is no file is not even read: a pipe would have no end.
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(path); !errors.Is(err, atomicfile.ErrOdd) || !strings.Contains(err.Error(), "set aside as "+path+".bad") {
		t.Errorf("a pipe: %v", err)
	}
	if st, err := ReadState(path); st != nil || err != nil {
		t.Errorf("read again: %v, %v", st, err)
	}
}

func TestKeeperWritesOnlyWhatChanged(t *testing.T) {
	k := NewKeeper(filepath.Join(t.TempDir(), "state"), 10*time.Second)
	now := time.Unix(1000, 0)
	if k.Wait(now) != 0 {
		t.Error("the first write has to wait")
	}
	st := sample()
	if err := k.Write(st, now); err != nil {
		t.Fatal(err)
	}
	written := k.Written
	if written == 0 || k.Wait(now.Add(400*time.Millisecond)) != 600*time.Millisecond {
		t.Errorf("%d bytes written, wait %s", written, k.Wait(now.Add(400*time.Millisecond)))
	}
	if err := k.Write(st, now.Add(time.Minute)); err != nil || k.Written != written {
		t.Errorf("the same state was written again: %v", err)
	}
}

// What comes after a pause is written soon, and what goes on and on once an
// interval.
func TestKeeperPaces(t *testing.T) {
	k := NewKeeper(filepath.Join(t.TempDir(), "state"), 10*time.Second)
	st, now := sample(), time.Unix(1000, 0)
	waits := func(n int) (list []time.Duration) {
		for range n {
			wait := k.Wait(now)
			list, now = append(list, wait), now.Add(wait)
			if err := k.Write(st, now); err != nil {
				t.Fatal(err)
			}
		}
		return list
	}
	const s = time.Second
	if got := waits(9); !slices.Equal(got, []time.Duration{0, s, s, s, s, 6 * s, 10 * s, 10 * s, 10 * s}) {
		t.Errorf("waits for %v", got)
	}
	if now = now.Add(10 * s); !slices.Equal(waits(3), []time.Duration{0, 10 * s, 10 * s}) {
		t.Error("one that was saved is not one")
	}
	if now = now.Add(time.Hour); !slices.Equal(waits(6), []time.Duration{0, s, s, s, s, 6 * s}) {
		t.Error("after a pause it is slow")
	}
}

// A full disk costs freshness: the file before stays whole.
func TestKeeperSurvivesAFullDisk(t *testing.T) {
	dir := t.TempDir()
	k := NewKeeper(filepath.Join(dir, "state"), 0)
	if err := k.Write(sample(), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	// A size limit stands in for the disk: writes beyond it fail.
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	other := sample()
	other.Used = append(other.Used, "more")
	err := k.Write(other, time.Unix(1, 0))
	if restore := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); restore != nil {
		t.Fatal(restore)
	}
	if err == nil {
		t.Fatal("the write did not fail")
	}
	st, err := ReadState(filepath.Join(dir, "state"))
	if err != nil || len(st.Used) != 1 {
		t.Errorf("the state before is gone: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".state*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := k.Write(other, time.Unix(2, 0)); err != nil {
		t.Errorf("not written when there was room again: %v", err)
	}
}

func newest(v interface {
	Get() (*topology.Snapshot, bool)
},
) *topology.Snapshot {
	s, _ := v.Get()
	return s
}

// Changes lead to the snapshot they were made from, over random histories in
// which slices also move from one Service to another.
func TestChangesLeadToTheSnapshot(t *testing.T) {
	for seed := range uint64(20) {
		w, buf := topologytest.New(seed), &bytes.Buffer{}
		e, err := NewEncoder(buf)
		if err != nil {
			t.Fatal(err)
		}
		sync := func() { // header first: a decoder cannot be made before
			if err := e.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		sync()
		d, err := NewDecoder(buf)
		if err != nil {
			t.Fatal(err)
		}
		read := topology.NewBuilder()
		last := w.Builder.Build()
		for step := range 50 {
			for range 1 + w.IntN(4) {
				w.Step()
			}
			next := w.Builder.Build()
			if err := e.change(last, next); err != nil {
				t.Fatal(err)
			}
			sync()
			for buf.Len()+d.r.Buffered() > 0 {
				r, err := d.Decode()
				if err != nil {
					t.Fatal(err)
				}
				apply(read, r)
			}
			if got, want := objects(read.Build()), objects(next); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, step %d: read %v, want %v", seed, step, got, want)
			}
			last = next
		}
	}
}

// What leaves one end of the socket arrives at the other, whole first, then
// changes, also over a restart of the server.
func TestSocketFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.sock")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := &Snapshots{}
	serve := func() (stop func()) {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, l, served, served.LastContact) }()
		return func() { cancel(); <-done }
	}
	stop := serve()
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "a-1"})
	key := topology.ObjectKey{Namespace: "default", Name: "web"}
	b.SetService(&topology.Service{Key: key})
	b.SetSlice(&topology.Slice{Key: key, Service: "web"})
	served.Publish(b.Build())

	reader := NewSocket(path)
	ended := make(chan error, 1)
	go func() { ended <- reader.Run(ctx) }()
	wake := reader.Wake()
	follow := func(what string) {
		t.Helper()
		deadline := time.After(5 * time.Second)
		for {
			select {
			case <-wake:
				if reflect.DeepEqual(objects(newest(reader)), objects(newest(served))) {
					return
				}
			case <-deadline:
				t.Fatalf("%s: read %v, want %v", what, objects(newest(reader)), objects(newest(served)))
			}
		}
	}
	follow("first")
	at := time.Now().Truncate(time.Millisecond)
	served.Contacted(at)
	b.DeleteSlice(key)
	b.SetSlice(&topology.Slice{Key: topology.ObjectKey{Namespace: "default", Name: "web-2"}, Service: "web"})
	b.DeleteNode("a-1")
	b.SetNode(&topology.Node{Name: "b-1"})
	served.Publish(b.Build())
	follow("change")
	for start := time.Now(); !reader.LastContact().Equal(at); time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Fatalf("last contact with the origin at %s, not %s", reader.LastContact(), at)
		}
	}
	stop()
	b.DeleteService(key)
	partial := b.Build()
	partial.Partial = true
	served.Publish(partial)
	stop = serve()
	follow("restart")
	if !newest(reader).Partial {
		t.Error("a part arrived as the whole")
	}
	b.SetService(&topology.Service{Key: key})
	served.Publish(b.Build())
	follow("whole")
	if newest(reader).Partial {
		t.Error("the whole arrived as a part")
	}
	for _, dead := range [][]string{{"b-1"}, nil} {
		served.Publish(b.Build().WithDead(dead))
		for start := time.Now(); !slices.Equal(newest(reader).Dead, dead); time.Sleep(time.Millisecond) {
			if time.Since(start) > 5*time.Second {
				t.Fatalf("dead are %v, want %v", newest(reader).Dead, dead)
			}
		}
	}
	stop()
	cancel()
	<-ended
}

func FuzzDecodeState(f *testing.F) {
	data, err := EncodeState(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(magic))
	quarrel, err := EncodeState(&State{Snapshot: quarrelsome(&topology.Service{})})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(quarrel)
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := DecodeState(data)
		if err == nil {
			topology.See(st.Snapshot, "a-1", topology.Options{})
			topology.See(st.Snapshot, "a-1", topology.Options{Datapath: topology.DatapathAuto})
		}
	})
}

func FuzzManifest(f *testing.F) {
	seed, err := os.ReadFile("../examples/two-units/state.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("{apiVersion: v1, kind: List, items: [{kind: List, items: [1]}]}"))
	f.Add([]byte(nested(maxLists + 1)))
	f.Add([]byte("{kind: List, items: [{apiVersion: v1, kind: Service, spec: &x {b: 1, b: 2}, <<: *x, a: [*x, {c: 1, c: 1}]}], items: 1}"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		m := &manifests{}
		m.document("fuzz", data, 0)
		d := NewDir("")
		d.files = []file{{content: m}}
		topology.See(d.build(), "a-1", topology.Options{})
	})
}
