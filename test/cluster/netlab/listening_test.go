package netlab_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// What listens in a namespace is found, of both families, and nothing that is
// merely connected, nor what listens elsewhere.
func TestListening(t *testing.T) {
	here, elsewhere := nodes[0].NS, nodes[1].NS
	before, err := here.Listening()
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(before)
	for _, at := range []string{"127.0.0.1:4711", "[::1]:4712", "[::]:4713"} {
		if err := here.Do(func() error {
			l, err := net.Listen("tcp", at)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		want = append(want, netip.MustParseAddrPort(at))
	}
	if err := here.Do(func() error {
		c, err := net.Dial("tcp", "127.0.0.1:4711")
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, netip.AddrPort.Compare)
	if got, err := here.Listening(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v listens, want %v: %v", got, want, err)
	}
	if got, err := elsewhere.Listening(); err != nil || slices.Contains(got, netip.MustParseAddrPort("127.0.0.1:4711")) {
		t.Errorf("elsewhere %v listens: %v", got, err)
	}
}
