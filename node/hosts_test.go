package node

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// ordinals is a headless Service of a StatefulSetGrid with one pod in unit a.
func ordinals(addr string) *nodetest.Objects {
	o := nodetest.NewObjects()
	keys, key := `["unit"]`, topology.ObjectKey{Namespace: "default", Name: "db-svc"}
	o.Builder().SetService(&topology.Service{
		Key: key, Headless: true, GridKey: "unit", TopologyKeys: &keys,
		Ports: []topology.ServicePort{{Name: "db", Protocol: topology.TCP, Port: 5432}},
	})
	o.Builder().SetSlice(&topology.Slice{
		Key: key, Service: key.Name, Ports: []topology.SlicePort{{Name: "db", Protocol: topology.TCP, Port: 5432}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr(addr), Node: "a-2", Hostname: "db-a-0", Ready: true, Serving: true}},
	})
	return o
}

func TestHostsFileFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		dir := filepath.Join(t.TempDir(), "late")
		r.cfg.HostsFile = filepath.Join(dir, "hosts")
		r.mustStart(t)

		partial := *ordinals("10.244.2.4").Snapshot()
		partial.Partial = true
		r.agent.snapshot.Publish(&partial)
		after(hostsBatch)
		if r.log.count("the hosts file cannot be written") > 0 {
			t.Error("written from a snapshot that is not whole")
		}
		r.publish(ordinals("10.244.2.5"))
		after(hostsBatch)
		if r.log.count("the hosts file cannot be written; trying again") != 1 {
			t.Error("a directory that is not there was not said")
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		has := func(when, addr string) {
			t.Helper()
			data, err := os.ReadFile(r.cfg.HostsFile)
			if err != nil || !strings.Contains(string(data), addr) || !strings.Contains(string(data), "db-0.db-svc.default.svc.cluster.local") {
				t.Errorf("%s: %v, %q", when, err, data)
			}
		}
		after(hostsRetry + hostsBatch)
		has("tried again", "10.244.2.5")
		r.publish(ordinals("10.244.2.6"))
		has("within a batch", "10.244.2.5")
		after(hostsBatch)
		has("changed", "10.244.2.6")
	})
}
