package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// followed is a node that follows SuperEdge's ConfigMaps, and what it was told.
type followed struct {
	*SuperEdge
	log      testkit.Output
	registry *prometheus.Registry

	mu     sync.Mutex
	groups []Grouping
	keys   []string
}

func newFollowed(file string) *followed {
	f := &followed{registry: prometheus.NewRegistry()}
	f.SuperEdge = &SuperEdge{
		Namespace: "edge-system", UnitKey: names.HealthZone, File: file, Metrics: NewSuperEdgeMetrics(f.registry), Log: slog.New(slog.NewTextHandler(&f.log, nil)),
		Group: func(g Grouping) { f.mu.Lock(); defer f.mu.Unlock(); f.groups = append(f.groups, g) },
		Keys: func(raw ...[]byte) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			var list []string
			for _, r := range raw {
				list = append(list, string(r))
			}
			f.keys = append(f.keys, strings.Join(list, "+"))
			return nil
		},
	}
	return f
}

// state is what was told last, and what is not in force.
func (f *followed) state() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, key := "unknown", "none"
	if n := len(f.groups); n > 0 {
		g = fmt.Sprintf("by %q units %v all %v", f.groups[n-1].Key, f.groups[n-1].Units, f.groups[n-1].All)
	}
	if len(f.keys) > 0 {
		key = f.keys[len(f.keys)-1]
	}
	var faults []string
	families, _ := f.registry.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if l := m.GetLabel(); m.GetGauge().GetValue() == 1 {
				faults = append(faults, l[0].GetValue()+" "+l[1].GetValue())
			}
		}
	}
	slices.Sort(faults)
	return fmt.Sprintf("key %s; %s; faults %v", key, g, faults)
}

// until waits for a state.
func (f *followed) until(t *testing.T, want string) {
	t.Helper()
	for begin := time.Now(); f.state() != want; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s, want %s\n%s", f.state(), want, f.log.String())
		}
	}
}

// run follows until the function that it returns is called.
func (f *followed) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

const (
	goodKey  = `{apiVersion: v1, kind: ConfigMap, metadata: {name: hmac-config, namespace: edge-system}, data: {hmackey: 0123456789abcdef}}`
	nextKey  = `{apiVersion: v1, kind: ConfigMap, metadata: {name: hmac-config, namespace: edge-system}, data: {hmackey: 0123456789abcdef, hmackey-next: fedcba9876543210}}`
	badKey   = `{apiVersion: v1, kind: ConfigMap, metadata: {name: hmac-config, namespace: edge-system}, data: {hmackey: hSZbJsKAVmWTxRPi}}`
	zones    = `{apiVersion: v1, kind: ConfigMap, metadata: {name: edge-health-zone-config, namespace: edge-system}, data: {TaintZoneAdmission: "true"}}`
	units    = `{apiVersion: v1, kind: ConfigMap, metadata: {name: edge-health-config, namespace: edge-system}, data: {unit-internal-check: "true", check-units: shop-1}}`
	badUnits = `{apiVersion: v1, kind: ConfigMap, metadata: {name: edge-health-config, namespace: edge-system}, data: {unit-internal-check: "true", check-units: "shop 1"}}`

	pathHMAC  = "/api/v1/namespaces/edge-system/configmaps/hmac-config"
	pathUnits = "/api/v1/namespaces/edge-system/configmaps/edge-health-config"
)

// SuperEdge's ConfigMaps are followed: each change is in force at once, and what is wrong leaves
// in force what was. A node that starts without a cloud goes on with that, its key too.
func TestSuperEdgesConfigMapsAreFollowed(t *testing.T) {
	s := newAPIServer(t)
	s.put(goodKey)
	s.put(zones)
	file := filepath.Join(t.TempDir(), "unit.superedge")
	f := newFollowed(file)
	f.Client, f.goneFor = s.client, time.Millisecond
	stop := f.run(t)
	f.until(t, `key 0123456789abcdef; by "superedgehealth/topology-zone" units [] all false; faults []`)
	s.put(nextKey)
	f.until(t, `key 0123456789abcdef+fedcba9876543210; by "superedgehealth/topology-zone" units [] all false; faults []`)
	s.put(badKey)
	f.until(t, `key 0123456789abcdef+fedcba9876543210; by "superedgehealth/topology-zone" units [] all false; faults [hmac-config content]`)
	s.put(units)
	f.until(t, `key 0123456789abcdef+fedcba9876543210; by "" units [shop-1] all false; faults [hmac-config content]`)
	s.put(badUnits)
	f.until(t, `key 0123456789abcdef+fedcba9876543210; by "" units [shop-1] all false; faults [edge-health-config content hmac-config content]`)
	s.remove(pathHMAC) // SuperEdge's nodes would sign with the key in its source
	s.remove(pathUnits)
	f.until(t, `key 0123456789abcdef+fedcba9876543210; by "superedgehealth/topology-zone" units [] all false; faults [hmac-config content]`)
	for _, text := range []string{
		"not taken, and what was in force stays\" name=edge-system/hmac-config", "it is the key in SuperEdge's source",
		"name=edge-system/edge-health-config", "can be no NodeUnit's name", "there is no such ConfigMap, and so no key",
	} {
		for begin := time.Now(); f.log.Count(text) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%s is not told: %s", text, f.log.String())
			}
		}
	}
	stop()
	for _, secret := range []string{"0123456789abcdef", "fedcba9876543210", "hSZbJsKAVmWTxRPi"} {
		if f.log.Count(secret) > 0 {
			t.Errorf("a key is in the log: %s", f.log.String())
		}
	}

	s.http.CloseClientConnections()
	s.http.Close()
	f = newFollowed(file)
	f.Client = s.client
	stop = f.run(t)
	f.until(t, `key 0123456789abcdef+fedcba9876543210; by "superedgehealth/topology-zone" units [] all false; faults []`)
	stop()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is kept with mode %v, %v", info.Mode(), err)
	}
}

// Where the API server does not say whether there is a ConfigMap nothing is made of that.
func TestWhatIsRefusedIsNotAbsent(t *testing.T) {
	s := newAPIServer(t)
	s.put(goodKey)
	s.put(zones)
	s.refuse("edge-health-zone-config")
	f := newFollowed("")
	f.Client = s.client
	stop := f.run(t)
	f.until(t, `key 0123456789abcdef; unknown; faults [edge-health-zone-config unread]`)
	s.refuse("")
	f.until(t, `key 0123456789abcdef; by "superedgehealth/topology-zone" units [] all false; faults []`)
	stop()
	if f.log.Count("needs the right to list and watch it") != 1 {
		t.Error(f.log.String())
	}
}

// Keys in files are no business of the ConfigMap's.
func TestKeysOfFiles(t *testing.T) {
	f := newFollowed("")
	f.Keys = nil
	f.begin()
	if got := f.wanted(); slices.Contains(got, names.HMACConfig) {
		t.Errorf("%v", got)
	}
	f.see(names.HealthZoneConfig, page{Known: true})
	f.see(names.HealthConfig, page{Known: true})
	if got := f.state(); got != `key none; by "" units [] all true; faults []` {
		t.Error(got)
	}
}

// What was kept is believed where it is whole, of that namespace, and says what ConfigMaps may.
func TestTheConfigMapsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unit.superedge")
	if b, err := readBook(file, "edge-system"); b != nil || err != nil {
		t.Errorf("nothing is kept: %v, %v", b, err)
	}
	b := book{names.HMACConfig: {Known: true, There: true, Data: map[string]string{"hmackey": "0123456789abcdef"}}}
	if err := writeBook(file, "edge-system", b); err != nil {
		t.Fatal(err)
	}
	if got, err := readBook(file, "edge-system"); err != nil || string(got.keys()[0]) != "0123456789abcdef" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := readBook(file, "kube-system"); err == nil || !strings.Contains(err.Error(), `of the namespace "edge-system", and not of "kube-system"`) {
		t.Error(err)
	}
	for text, why := range map[string]string{
		"{":              "unexpected end",
		`{"version": 2}`: "its version is 2, and 1 is known",
		`{"version":1,"namespace":"edge-system","maps":{"x":{"known":true}}}`:                                                              `"x" is none of the ConfigMaps`,
		`{"version":1,"namespace":"edge-system","maps":{"hmac-config":{}}}`:                                                                "none of the ConfigMaps",
		`{"version":1,"namespace":"edge-system","maps":{"hmac-config":{"known":true}}}`:                                                    "no such ConfigMap, and so no key",
		`{"version":1,"namespace":"edge-system","maps":{"hmac-config":{"known":true,"there":true,"data":{"hmackey":"hSZbJsKAVmWTxRPi"}}}}`: "in SuperEdge's source",
		`{"version":1,"namespace":"edge-system","maps":{"hmac-config":{"known":true,"there":true,"data":{"hmackey":"k","x":"y"}}}}`:        `"x" is none of the keys`,
		`{"version":1,"namespace":"edge-system","maps":{"edge-health-config":{"known":true,"there":true,"data":{"check-units":"a b"}}}}`:   "can be no NodeUnit's name",
		strings.Repeat(" ", mostBook+1): "is no file of ours",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readBook(file, "edge-system"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.100s: %v, want %s", text, err, why)
		}
	}
}

// A key that the exchange does not take is a fault of its ConfigMap.
func TestTheExchangeRefusesAKey(t *testing.T) {
	f := newFollowed("")
	f.Legacy = peer.G1
	f.Keys = func(...[]byte) error { return errors.New("not that one") }
	f.begin()
	key := func(k string) page {
		return page{Known: true, There: true, Data: map[string]string{"hmackey": k}}
	}
	f.see(names.HMACConfig, key("0123456789abcdef"))
	told := func(faults string, refusals int) {
		t.Helper()
		if got := f.state(); !strings.HasSuffix(got, faults) || f.log.Count("not that one") != refusals {
			t.Errorf("%s, want %s: %s", got, faults, f.log.String())
		}
	}
	told("faults [hmac-config content]", 1)
	f.see(names.HMACConfig, key("0123456789abcdef")) // it is looked at again and again
	told("faults [hmac-config content]", 1)
	f.Keys = func(...[]byte) error { return nil }
	f.see(names.HMACConfig, key("fedcba9876543210"))
	told("faults []", 1)
}

// Nodes move between units, and units change, without a restart: who votes with whom is told
// each time.
func TestTheUnitIsFollowed(t *testing.T) {
	s := newAPIServer(t)
	node := func(name, labels string) {
		s.put(fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}}`, name, labels))
	}
	node("a-1", "zone: x, shop: nodeunits.superedge.io")
	node("a-2", "zone: x")
	node("a-3", "zone: y, shop: nodeunits.superedge.io")
	node("a-4", "zone: x, shop: nodeunits.superedge.io, bar: nodeunits.superedge.io")
	node("m-1", "zone: x, node-role.kubernetes.io/control-plane: ''")
	groupings := make(chan Grouping, 1)
	told := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- FollowUnit(ctx, s.client, "a-1", groupings, "", func(u Unit) {
			var list []string
			for _, m := range u.Members {
				list = append(list, m.Name)
			}
			told <- u.Name + ": " + strings.Join(list, " ")
		}, slog.New(slog.DiscardHandler))
	}()
	until := func(want string) {
		t.Helper()
		for timeout := time.After(time.Minute); ; {
			select {
			case got := <-told:
				if got == want {
					return
				}
			case <-timeout:
				t.Fatalf("never %s", want)
			}
		}
	}
	groupings <- Grouping{Key: "zone"}
	until("x: a-1 a-2 a-4 m-1")
	groupings <- Grouping{Key: "zone", Workers: true}
	until("x: a-1 a-2 a-4")
	groupings <- Grouping{All: true, Workers: true}
	until("all: a-1 a-2 a-3 a-4")
	groupings <- Grouping{Units: []string{"shop"}}
	until("shop: a-1 a-3 a-4")
	groupings <- Grouping{Units: []string{"bar", "shop"}} // who is in both votes with who is in both
	until("shop: a-1 a-3")
	node("a-1", "zone: x, shop: nodeunits.superedge.io, bar: nodeunits.superedge.io")
	until("bar,shop: a-1 a-4")
	node("a-1", "zone: x")
	until(": ")
	groupings <- Grouping{All: true, Workers: true}
	until("all: a-1 a-2 a-3 a-4")
	s.remove("/api/v1/nodes/a-1") // who has no Node votes on nobody
	until(": ")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
