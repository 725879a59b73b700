package capture

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What nftables did not tell of is found all the same, now and then.
func TestAllIsReadNowAndThen(t *testing.T) {
	t.Parallel()
	c := started(t, kernelConfig())
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	must(t, c.setKernel(map[string][]plan.KernelFrontend{"default/web": example()}, false))
	for again := true; again; { // until it knows that nobody wrote since
		var err error
		again, err = c.Repair()
		must(t, err)
	}
	deaf := func(nl.Message) bool { return false }
	for _, of := range []struct {
		name string
		conn *nft.Session
		in   *known
		harm func()
	}{
		{"the capture's table", c.table.conn, &c.table.known, func() { c.emptied(t, "serve4") }},
		{"the kernel path's", c.kernel.table.conn, &c.kernel.table.known, func() {
			other, err := nftables.New()
			must(t, err)
			other.FlushSet(c.kernel.table.sets["front4"])
			must(t, other.Flush())
		}},
	} {
		of.in.others.Close()
		var err error
		of.in.others, err = nft.Follow(of.conn, deaf)
		must(t, err)
		of.in.gen, err = of.conn.Generation()
		must(t, err)
		of.harm()
		if repaired, err := c.Repair(); repaired || err != nil {
			t.Fatalf("%s: this test hides nothing from Repair: %v, %v", of.name, repaired, err)
		}
		of.in.read = time.Now().Add(-readEvery)
		if repaired, err := c.Repair(); !repaired || err != nil {
			t.Errorf("%s, after %s: repaired %v, %v", of.name, readEvery, repaired, err)
		}
		for again := true; again; {
			again, err = c.Repair()
			must(t, err)
		}
	}
}

// Where nobody follows what others write, each Repair begins again.
func TestFollowingBeginsAgain(t *testing.T) {
	t.Parallel()
	c := started(t, kernelConfig())
	for _, k := range []*known{&c.table.known, &c.kernel.table.known} {
		k.others.Close()
		k.others = nil
	}
	_, err := c.Repair()
	must(t, err)
	if c.table.others == nil || c.kernel.table.others == nil {
		t.Errorf("the capture's table is followed: %v, the kernel path's: %v", c.table.others != nil, c.kernel.table.others != nil)
	}
}

// Why nobody does is said once, until somebody did.
func TestNotFollowingIsSaidOnce(t *testing.T) {
	testkit.NewNetwork(t)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 0 // open files stay open
	k, conn := known{}, nft.New()
	for range 2 {
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
		k.follow(conn, ofOurTables, log)
		k.follow(conn, ofOurTables, log)
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		k.follow(conn, ofOurTables, log)
		if k.others == nil {
			t.Fatal("nobody follows")
		}
		k.others.Close()
		k.others = nil
	}
	if n := strings.Count(said.String(), "\n"); n != 2 || !strings.Contains(said.String(), "cannot follow") {
		t.Errorf("%d lines, want one each time it begins:\n%s", n, said.String())
	}
}
