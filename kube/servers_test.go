package kube

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
)

// What is dialled is known, the newest last, and no more than a few of them.
func TestServersThatWereDialled(t *testing.T) {
	var s servers
	var passed int
	control := s.noting(func(string, string, syscall.RawConn) error { passed++; return nil })
	dial := func(address string) {
		t.Helper()
		if err := control("tcp", address, nil); err != nil {
			t.Fatal(err)
		}
	}
	dial("192.0.2.1:6443")
	dial("192.0.2.1:6443")
	dial("[fe80::1%eth0]:6443")
	dial("[::ffff:192.0.2.2]:6443")
	want := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("192.0.2.2")}
	if got := s.all(); !slices.Equal(got, want) || passed != 4 {
		t.Errorf("dialled were %v, want %v; %d passed on", got, want, passed)
	}
	for i := range 100 {
		dial(fmt.Sprintf("192.0.2.%d:6443", 100+i))
	}
	if got := s.all(); len(got) != mostServers || got[mostServers-1] != netip.MustParseAddr("192.0.2.199") {
		t.Errorf("dialled were %v", got)
	}
}
