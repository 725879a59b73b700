package capture

import (
	"net"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestListening(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	expect := func(when string, want bool) {
		t.Helper()
		got, err := Listening(15001, 15002)
		must(t, err)
		if got != want {
			t.Errorf("%s: listening %v, want %v", when, got, want)
		}
	}
	expect("nobody is there", false)
	for i, addr := range []string{"127.0.0.1:15001", "127.0.0.1:15002"} {
		l, err := net.Listen("tcp4", addr)
		must(t, err)
		defer l.Close()
		expect(addr, i == 1)
	}
}
