package soak

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	steady, other := netip.MustParseAddrPort("10.96.0.1:80"), netip.MustParseAddrPort("10.96.0.2:80")
	at := time.Now()
	sum := tally{deeds: 5, leftOut: 2, repairs: map[int]int{1: 3, 2: 1}}
	for _, d := range []dial{
		{to: steady, began: at, ended: at.Add(time.Second), from: "node a-1"},
		{to: steady, began: at, ended: at.Add(2 * time.Second), from: "pod b-1"},
		{to: steady, began: at, ended: at.Add(time.Minute), err: syscall.ETIMEDOUT},
		{to: other, began: at, ended: at.Add(time.Hour)},
		{to: other, err: syscall.ECONNREFUSED},
		{name: true, began: at, ended: at.Add(3 * time.Second)},
	} {
		sum.dialled(&d, steady)
	}
	for _, want := range []string{"3 steps done and 2 left out", "3 dials answered, 1 names asked for, the slowest answer took 3s", "of 3 dials of the steady app 1 failed", "took 2s (pod b-1)", "4 repairs"} {
		if got := sum.String(); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
