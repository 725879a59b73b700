package cleanup

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What waits for a disk ends when that answers.
func TestMain(m *testing.M) {
	testkit.Namespaced(func() int {
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	})
}

// briefly is patience with a disk that hangs, slowDisk with one that is no subject of
// a test.
const briefly, slowDisk = 50 * time.Millisecond, 10 * time.Minute

// configured is a node that has a directory for the state, and one for sockets.
func configured(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(in("state"), 0o700))
	must(t, os.Mkdir(in("run"), 0o700))
	c := Config{
		Capture: plan.Default(), Host: capture.Host{StateDir: in("state"), ProcSys: "/proc/sys", Patience: slowDisk}, Patience: slowDisk,
		XDSSocket: in("run/xds.sock"), StatusSocket: in("run/agent.sock"), FeedSocket: in("run/feed.sock"), AdminSocket: in("run/envoy-admin.sock"),
	}
	c.Capture.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}
	c.Capture.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	return c
}

// impatient is c where the disk of the directory of the state answers nothing, until
// back is called.
func impatient(t *testing.T, c Config) (_ Config, back func()) {
	t.Helper()
	c.Patience, c.Host.Patience = briefly, briefly
	return c, testkit.HangingDisk(t, c.Host.StateDir)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
