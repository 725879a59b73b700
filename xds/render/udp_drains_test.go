package render

import (
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Envoy holds a listener that was closed for ten minutes. Who has listeners come and
// go has others as long as few of them drain; other namespaces notice nothing, and
// when they are gone the next ones are opened, without a change of anything.
func TestUDPListenersThatDrainAreBounded(t *testing.T) {
	evil, shop := topology.ObjectKey{Namespace: "evil", Name: "churn"}, topology.ObjectKey{Namespace: "shop", Name: "tills"}
	w := newUDPWorld(500)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	made, start := 0, now
	var cat *Catalog
	for i := range 100 { // in 50 s
		now = now.Add(time.Second / 2)
		w.cats.At(now)
		w.service(evil, 9, unitOnly, topology.UDP, portsFrom(10_000+100*i, 12), "a-1")
		before := cat
		cat, _ = w.next()
		for _, name := range udpListeners(cat) {
			if before == nil {
				made++
			} else if _, had := before.udp.Get(udpPrefix + name); !had {
				made++
			}
		}
	}
	if made < maxUDPDrains || made > maxUDPDrains+2*maxServiceUDP {
		t.Errorf("%d listeners were made, want about %d", made, maxUDPDrains)
	}
	said := ""
	for _, p := range cat.Problems {
		said += p.String() + "\n"
	}
	if !strings.Contains(said, "12 UDP ports are refused, for its namespace had 250 UDP listeners end in 10m0s, which Envoy holds that long: of service evil/churn; wait until") {
		t.Errorf("said: %s", said)
	}
	w.service(shop, 10, unitOnly, topology.UDP, portsFrom(20_000, 16), "a-1")
	if cat, _ = w.next(); len(udpListeners(cat)) != 16 {
		t.Errorf("%d listeners, and the other namespace is to have 16", len(udpListeners(cat)))
	}
	if w.cats.At(start.Add(9 * time.Minute)) {
		t.Error("there is room before any is gone")
	}
	if !w.cats.At(now.Add(udpDrainTime)) {
		t.Error("there is no room, and all are gone")
	}
	if cat, _ = w.next(); len(udpListeners(cat)) != 28 || len(cat.Problems) > 0 {
		t.Errorf("%d listeners of 28, problems %v", len(udpListeners(cat)), cat.Problems)
	}
	if n := len(w.cats.udp.drain.list) + len(w.cats.udp.drain.namespaces); n > 0 {
		t.Errorf("%d are still remembered", n)
	}
}
