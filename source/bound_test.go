package source

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/topology"
)

// large is a cluster of so many Services of ten endpoints, with names as long as those of real
// ones are, and a node for each ten of them.
func large(services int) *topology.Snapshot {
	const each = 10
	keys, b := `["gridmesh.example.com/site"]`, topology.NewBuilder()
	b.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")})
	node := func(i int) string { return fmt.Sprintf("shop-%05d.edge.example.com", i) }
	for i := range services / each {
		b.SetNode(&topology.Node{Name: node(i), Labels: map[string]string{
			"gridmesh.example.com/site": fmt.Sprintf("site-%04d", i/4), "kubernetes.io/hostname": node(i), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"topology.kubernetes.io/region": "europe-central", "topology.kubernetes.io/zone": "europe-central-1",
		}})
	}
	for i := range services {
		key := topology.ObjectKey{Namespace: fmt.Sprintf("team-payments-%03d", i%200), Name: fmt.Sprintf("checkout-frontend-%05d", i)}
		b.SetService(&topology.Service{
			Key: key, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}, TopologyKeys: &keys, Selector: 1 << 63, Created: 1_790_000_000,
			Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 8080}, {Name: "metrics", Protocol: topology.TCP, Port: 9090}},
		})
		s := &topology.Slice{
			Key: topology.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-x7k2p"}, Service: key.Name,
			Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: 8080}, {Name: "metrics", Protocol: topology.TCP, Port: 9090}},
		}
		for j := range each {
			n := each*i + j
			s.Endpoints = append(s.Endpoints, topology.Endpoint{
				Addr: netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)}), Node: node(n % (services / each)), Ready: true, Serving: true,
			})
		}
		b.SetSlice(s)
	}
	return b.Build()
}

// The bound is no cluster's: it is four times what 10,000 Services of ten endpoints weigh, and
// more than the largest cluster that is spoken of, of which gridmesh-dns keeps all.
func TestTheStateOfALargeCluster(t *testing.T) {
	const services, largest = 10_000, 50_000
	data, err := EncodeState(&State{Snapshot: large(services), Node: "shop-00000.edge.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d Services of ten endpoints are %.1f MiB; up to %d MiB are kept, and read", services, float64(len(data))/(1<<20), maxState>>20)
	if most := max(4, largest/services) * len(data); most > maxState {
		t.Errorf("%d bytes are not kept, at most %d are", most, maxState)
	}
}

// What follows the last record is nobody's.
func TestWhatFollowsTheLastRecordIsRefused(t *testing.T) {
	data, err := EncodeState(sample())
	if err != nil {
		t.Fatal(err)
	}
	for what, more := range map[string][]byte{"a byte": {0}, "zeroes": make([]byte, 1<<20), "another state": data} {
		if _, err := DecodeState(append(bytes.Clone(data), more...)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// allocates is how many bytes something takes, of which all but little may be free again.
func allocates(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A file takes no more memory than its bound, however large it is: one of 250 MiB took 640 MB.
func TestALargeFileIsNotRead(t *testing.T) {
	data, err := EncodeState(sample())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		size int64
		most uint64 // bytes, for all that is read
		want error
	}{
		"far beyond":      {250 << 20, 1 << 20, atomicfile.ErrOdd},
		"a byte too much": {maxState + 1, 1 << 20, atomicfile.ErrOdd},
		"all that may be": {maxState, maxState + 1<<20, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), StateFile)
			if err := errors.Join(os.WriteFile(path, data, 0o600), os.Truncate(path, tc.size)); err != nil {
				t.Fatal(err)
			}
			var st *State
			var err error
			took := allocates(func() { st, err = ReadState(path) })
			t.Logf("%d MiB: %.1f MiB were taken, %v", tc.size>>20, float64(took)/(1<<20), err)
			if st != nil || !errors.Is(err, tc.want) || !strings.Contains(err.Error(), "set aside as "+path+".bad") {
				t.Errorf("%+v, %v", st, err)
			}
			if took > tc.most {
				t.Errorf("%d bytes were taken, at most %d are to be", took, tc.most)
			}
		})
	}
}

// What nobody would read is not written either, and what was written before stays.
func TestAStateThatIsTooLargeIsNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), StateFile)
	k, now := NewKeeper(path, 0), time.Unix(1000, 0)
	if err := k.Write(sample(), now); err != nil {
		t.Fatal(err)
	}
	written, b := k.Written, topology.NewBuilder()
	text := strings.Repeat("x", 1<<20) // one for all: what is bounded is what is made of it
	for i := range maxState >> 20 {
		b.SetNode(&topology.Node{Name: fmt.Sprint(i), Labels: map[string]string{"unit": text}})
	}
	if err := k.Write(&State{Snapshot: b.Build()}, now); !errors.Is(err, ErrTooLarge) || k.Written != written {
		t.Errorf("%d bytes were written, %v", k.Written-written, err)
	}
	if st, err := ReadState(path); err != nil || st.Snapshot.Services.Len() != sample().Snapshot.Services.Len() {
		t.Errorf("the state before is gone: %v", err)
	}
	b.DeleteNode("0")
	if err := k.Write(&State{Snapshot: b.Build()}, now); err != nil || k.Written == written {
		t.Errorf("one that is small enough is not kept: %v", err)
	}
}

// A state is the node's whose agent kept it; one of before does not say whose it is.
func TestAStateIsOfItsNode(t *testing.T) {
	for name, tc := range map[string]struct {
		of, reader string
		taken      bool
	}{
		"its own":                 {"a-1", "a-1", true},
		"another's":               {"b-7", "a-1", false},
		"of before":               {"", "a-1", true},
		"read by who has no name": {"b-7", "", true}, // as gridmesh-dns
	} {
		t.Run(name, func(t *testing.T) {
			path, kept := filepath.Join(t.TempDir(), StateFile), sample()
			kept.Node = tc.of
			if err := NewKeeper(path, 0).Write(kept, time.Unix(1000, 0)); err != nil {
				t.Fatal(err)
			}
			st, err := ReadStateOf(tc.reader)(path)
			if (st != nil) != tc.taken || errors.Is(err, ErrOther) == tc.taken {
				t.Errorf("%+v, %v", st, err)
			}
			if st, err := ReadStateOf(tc.of)(path); st == nil || err != nil { // whose name was mistyped once
				t.Errorf("read by its own node afterwards: %+v, %v", st, err)
			}
			for _, want := range []string{path, `"b-7"`, `"a-1"`} {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %s: %v", want, err)
				}
			}
		})
	}
}
