package capture

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What changed between Install and Watch is looked at as well: Watch begins awake.
func TestNothingIsMissedBeforeWatch(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, config(), testHost(t))
	must(t, netlink.RuleDel(ownRule(c.cfg, unix.AF_INET)))
	wake, err := Watch(t.Context())
	must(t, err)
	select {
	case <-wake:
	default:
		t.Fatal("nobody looks at what was before")
	}
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Errorf("repaired: %v, %v", repaired, err)
	}
}
