package capture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestFloors(t *testing.T) {
	of := func(list []floor, key string) int {
		i := slices.IndexFunc(list, func(f floor) bool { return f.key == key })
		if i < 0 {
			return -1
		}
		return list[i].least
	}
	for _, c := range []struct {
		perCore, least, cores, most int
	}{
		{32 << 10, 128 << 10, 2, 128 << 10},   // few cores: the least
		{32 << 10, 128 << 10, 8, 256 << 10},   // more: for each
		{32 << 10, 128 << 10, 64, 1 << 20},    // very many: a million
		{32 << 10, 2 << 20, 64, 2 << 20},      // but what was asked for
		{0, 128 << 10, 64, 0},                 // left alone
		{1 << 31 >> 1, 128 << 10, 4, 1 << 20}, // absurd
	} {
		list := Tracking{MaxPerCore: c.perCore, Min: c.least}.floors(c.cores)
		if got := of(list, "nf_conntrack_max"); got != c.most || of(list, "nf_conntrack_buckets") != c.most/4 {
			t.Errorf("%+v: %v", c, list)
		}
	}
	list := DefaultTracking().floors(1)
	if of(list, "nf_conntrack_tcp_timeout_close_wait") != 3600 || of(list, "nf_conntrack_tcp_timeout_established") != 86400 || of(list, "nf_conntrack_tcp_be_liberal") != -1 {
		t.Errorf("%v", list)
	}
}

func TestWrongTracking(t *testing.T) {
	err := Tracking{MaxPerCore: -1, TCPCloseWait: time.Millisecond, UDP: -time.Second}.Validate()
	for _, flag := range []string{"--conntrack-max-per-core -1", "--conntrack-tcp-timeout-close-wait 1ms", "--conntrack-udp-timeout -1s"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
	if err := DefaultTracking().Validate(); err != nil {
		t.Error(err)
	}
}

// On a real kernel: what is lower is raised, what is higher stays, and who lowers it
// later means it. The bound is not that network's to set, and nobody is told.
func TestTrackingIsRaised(t *testing.T) {
	testkit.NewNetwork(t)
	host := testHost(t)
	host.Tracking = Tracking{MaxPerCore: 1 << 30, TCPCloseWait: time.Hour, TCPEstablished: time.Minute, UDP: 45 * time.Second, Liberal: true}
	value := func(key string) string {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/netfilter", key))
		must(t, err)
		return strings.TrimSpace(string(text))
	}
	const closeWait, established, liberal = "nf_conntrack_tcp_timeout_close_wait", "nf_conntrack_tcp_timeout_established", "nf_conntrack_tcp_be_liberal"
	before, bound := value(established), value("nf_conntrack_max")
	c := starting(t, config(), host)
	if got := value(closeWait); got != "3600" {
		t.Errorf("of a connection that is half closed: %s", got)
	}
	if value(liberal) != "1" || value("nf_conntrack_udp_timeout") != "45" {
		t.Errorf("liberal %s, UDP %s", value(liberal), value("nf_conntrack_udp_timeout"))
	}
	if value(established) != before || value("nf_conntrack_max") != bound {
		t.Errorf("lowered to %s, or the machine's bound is changed to %s", value(established), value("nf_conntrack_max"))
	}
	if list := c.own.all(); len(list) > 0 {
		t.Errorf("found %v", list)
	}
	must(t, os.WriteFile(filepath.Join("/proc/sys/net/netfilter", closeWait), []byte("90"), 0o644))
	if _, err := c.Repair(); err != nil || value(closeWait) != "90" {
		t.Errorf("somebody's own 90 is %s, %v", value(closeWait), err)
	}
	must(t, c.Remove())
	if got := value(liberal); got != "1" {
		t.Errorf("lowered at the end: %s", got)
	}
}

// Where nothing can be written, as on a /proc/sys that is read-only, it is a finding, and
// no error; it is over once it can.
func TestTrackingThatCannotBeRaised(t *testing.T) {
	testkit.NewNetwork(t)
	host := testHost(t)
	host.Tracking = Tracking{TCPCloseWait: time.Hour}
	c := starting(t, config(), host)
	sys := t.TempDir()
	key := filepath.Join(sys, "net", "netfilter", "nf_conntrack_tcp_timeout_close_wait")
	must(t, os.MkdirAll(key, 0o755)) // which nobody can read or write as a value
	c.host.ProcSys, c.raised = sys, false
	c.raiseTracking()
	list := c.own.all()
	if len(list) != 1 || list[0].Kind != TrackingLimits || !strings.Contains(list[0].Text, "nf_conntrack_tcp_timeout_close_wait=3600") {
		t.Fatalf("found %v", list)
	}
	must(t, os.Remove(key))
	must(t, os.WriteFile(key, []byte("60\n"), 0o644))
	c.raiseTracking()
	if text, err := os.ReadFile(key); err != nil || string(text) != "3600" || len(c.own.all()) > 0 {
		t.Errorf("%q, %v, found %v", text, err, c.own.all())
	}
}
