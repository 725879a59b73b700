package node

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

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
		for what, spoil := range map[string]func() error{
			"deleted": func() error { return os.Remove(r.cfg.HostsFile) },
			"emptied": func() error { return os.Truncate(r.cfg.HostsFile, 0) },
			"a pipe":  func() error { return errors.Join(os.Remove(r.cfg.HostsFile), unix.Mkfifo(r.cfg.HostsFile, 0o600)) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			after(2 * time.Minute)
			if info, err := os.Lstat(r.cfg.HostsFile); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: %v, %v", what, info, err)
				continue
			}
			has(what, "10.244.2.6")
		}
		if n := r.log.count("the hosts file was changed by somebody else"); n != 3 {
			t.Errorf("said %d times", n)
		}
		before, err := os.Stat(r.cfg.HostsFile)
		must(t, err)
		after(10 * time.Minute)
		if now, err := os.Stat(r.cfg.HostsFile); err != nil || !os.SameFile(before, now) {
			t.Errorf("written although it is right: %v", err)
		}
	})
}
