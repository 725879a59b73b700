package datapath

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/xds/admin"
)

// What only Envoy knows can be read: which endpoint it leaves alone at the
// moment, and how many connections each Service has had. gridmesh view marks it.
func TestEjectionsAndTrafficAreRead(t *testing.T) {
	f := deploy(t, "admin", `["unit"]`)
	f.ends = []backend{{f.pods["a-1"].IP, "a-1"}, {f.pods["a-2"].IP, "a-2"}}
	w.state.service(f.service)
	must(t, w.state.write())
	e, from := named(t, "a-1"), f.pods["a-1"].NS
	cluster := f.at(0).String()
	reader := admin.New(e.Dir + "/admin.sock")
	traffic := admin.NewTraffic(100)
	read := func() (endpoints map[netip.AddrPort]admin.Endpoint, used []string, ejected int) {
		t.Helper()
		list, err := reader.Clusters(t.Context())
		must(t, err)
		said, err := reader.Stats(t.Context())
		must(t, err)
		if !said.Counted {
			t.Error("it does not count by cluster")
		}
		for _, u := range said.Uses {
			if u.Cluster == cluster {
				ejected = u.Ejected
			}
		}
		endpoints = map[netip.AddrPort]admin.Endpoint{}
		for _, c := range list {
			if c.Name == "xds" {
				t.Error("the agent's own cluster is listed")
			}
			for _, e := range c.Endpoints {
				if c.Name == cluster {
					endpoints[e.Address] = e
				}
			}
		}
		used = traffic.Take(said.Uses, func(name string) string {
			if strings.HasPrefix(name, cluster) {
				return "default/admin"
			}
			return ""
		})
		return endpoints, used, ejected
	}
	wait.Eventually(t, func() error {
		if got, _, _ := read(); len(got) != 2 {
			return fmt.Errorf("the cluster has %v", got)
		}
		return nil
	})
	wait.Eventually(t, func() error {
		_, err := edge.Ask(from, "tcp", f.at(0), time.Second)
		return err
	})
	read()
	before := traffic.Totals()["default/admin"]
	for range 10 {
		_, err := edge.Ask(from, "tcp", f.at(0), answers)
		must(t, err)
	}
	ends, used, _ := read()
	if got := traffic.Totals()["default/admin"]; got.Connections < before.Connections+10 || got.Failed != before.Failed || !slices.Contains(used, cluster) {
		t.Errorf("%+v after %+v and 10 connections; in use: %v", got, before, used)
	}
	var sum uint64
	for _, e := range ends {
		sum += e.Connections
	}
	if got := traffic.Totals()["default/admin"].Connections; got < sum {
		t.Errorf("of the cluster %d are counted, of its endpoints %d", got, sum)
	}

	gone := netip.AddrPortFrom(f.pods["a-2"].IP, 8080)
	marked := regexp.MustCompile(regexp.QuoteMeta(gone.String()) + ` +a-2 +ejected by Envoy`)
	f.apps["a-2"].Stop()
	wait.Eventually(t, func() error {
		_, err := edge.Ask(from, "tcp", f.at(0), answers)
		must(t, err)
		if got, _, n := read(); !got[gone].Ejected || got[gone].Failed == 0 || n != 1 {
			return fmt.Errorf("%s: %+v; %d are counted as ejected", gone, got[gone], n)
		}
		if out := inspect(t, e, "view", "default/admin"); !marked.MatchString(out) {
			return fmt.Errorf("no mark at %s: %s", gone, out)
		}
		return nil
	})
	app, err := edge.StartApp(f.pods["a-2"].NS, "admin-a-2", 8080)
	must(t, err)
	t.Cleanup(app.Stop)
	wait.Eventually(t, func() error {
		if got, _, n := read(); got[gone].Ejected || n != 0 {
			return fmt.Errorf("%s: %+v; %d are counted as ejected", gone, got[gone], n)
		}
		if out := inspect(t, e, "view", "default/admin"); contains(out, "ejected") {
			return fmt.Errorf("it is said to be ejected still: %s", out)
		}
		return nil
	})
}
