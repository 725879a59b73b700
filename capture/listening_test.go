package capture

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/ports"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Envoy has all of its listeners of IPv4, or does not serve.
func TestListening(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	wantListening(t, "nobody is there", ErrNotListening)
	for i, addr := range []string{"127.0.0.1:15001", "127.0.0.1:15002", "127.0.0.1:15009"} {
		lc := &transparently
		if i == 2 {
			lc = &net.ListenConfig{}
		}
		opened(t, lc, "tcp4", addr)
		wantListening(t, addr, []error{ErrNotListening, ErrNotListening, nil}[i])
	}
}

// Anybody may open Envoy's ports: whoever is not root, or the agent's own user, is taken for it only where
// he was allowed transparent sockets, and so is a program of root's. The findings name who is none, once for each port,
// whatever else he opens elsewhere.
func TestStrangersOnEnvoysPorts(t *testing.T) {
	const health, nobody = "127.0.0.1:15009", testkit.Stranger
	plainly := &net.ListenConfig{}
	type opens struct {
		by      *net.ListenConfig
		network string
		address string
	}
	for name, c := range map[string]struct {
		stranger, root []opens
		want           error
		findings       []string
	}{
		"all are his": {
			stranger: []opens{{plainly, "tcp4", "127.0.0.1:15001"}, {plainly, "tcp4", "127.0.0.1:15002"}, {plainly, "tcp4", health}},
			want:     ErrStranger, findings: []string{"user 65534 listens on TCP port 15001", "user 65534 listens on TCP port 15002", "user 65534 listens on TCP port 15009"},
		},
		"on both families at once": {
			stranger: []opens{{plainly, "tcp", "[::]:15001"}},
			want:     ErrStranger, findings: []string{"user 65534 listens on TCP port 15001"},
		},
		"on IPv6 alone": {
			root:     []opens{{&transparently, "tcp4", "127.0.0.1:15001"}, {&transparently, "tcp4", "127.0.0.1:15002"}, {plainly, "tcp4", health}},
			stranger: []opens{{plainly, "tcp6", "[::1]:15002"}}, findings: []string{"user 65534 listens on TCP port 15002"},
		},
		"its health alone": {
			root:     []opens{{&transparently, "tcp4", "127.0.0.1:15001"}, {&transparently, "tcp4", "127.0.0.1:15002"}},
			stranger: []opens{{plainly, "tcp4", health}},
			want:     ErrStranger, findings: []string{"user 65534 listens on TCP port 15009"},
		},
		"another program of root's": {
			root: []opens{{plainly, "tcp4", "127.0.0.1:15001"}, {&transparently, "tcp4", "127.0.0.1:15002"}, {plainly, "tcp4", health}},
			want: ErrStranger, findings: []string{"user 0 listens on TCP port 15001"},
		},
		"an Envoy of its own user": {
			stranger: []opens{{&transparently, "tcp4", "127.0.0.1:15001"}, {&transparently, "tcp4", "127.0.0.1:15002"}, {plainly, "tcp4", health}},
		},
		"where Envoy is not": {
			root:     []opens{{&transparently, "tcp4", "127.0.0.1:15001"}, {&transparently, "tcp4", "127.0.0.1:15002"}, {plainly, "tcp4", health}},
			stranger: []opens{{plainly, "tcp4", "127.0.0.2:15001"}, {plainly, "tcp6", "[::1]:15009"}, {plainly, "tcp4", "127.0.0.1:15003"}, {plainly, "tcp4", "127.0.0.1:15010"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.NewNetwork(t)
			testkit.NeedsStranger(t)
			for _, o := range c.root {
				opened(t, o.by, o.network, o.address)
			}
			must(t, <-testkit.AsStranger(t, func() error {
				for _, o := range c.stranger {
					l, err := o.by.Listen(t.Context(), o.network, o.address)
					if err != nil {
						return err
					}
					t.Cleanup(func() { _ = l.Close() })
				}
				return nil
			}))
			wantListening(t, fmt.Sprintf("user %d", nobody), c.want)
			kernel, err := New(config(), testHost(t))
			must(t, err)
			list, err := kernel.Inspector()()
			must(t, err)
			list = slices.DeleteFunc(list, func(f Finding) bool { return f.Kind != EnvoyPorts })
			if !slices.EqualFunc(list, c.findings, func(f Finding, want string) bool { return strings.HasPrefix(f.Text, want+",") }) {
				t.Errorf("findings %+v, want %q", list, c.findings)
			}
		})
	}
}

// Who holds ports of all addresses of the loopback is told once.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	must(t, <-testkit.AsStranger(t, func() error {
		for i := range 50 {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", fmt.Sprintf("127.0.0.%d:15003", i+1))
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		return nil
	}))
	l, err := Listening(ports.Default())
	must(t, err)
	if list := l.findings(true); len(list) != 1 {
		t.Errorf("with redirects: %+v", list)
	}
}

// An answer counts where who listens has done so since before the question.
func TestListeningStill(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	opened(t, &transparently, "tcp4", "127.0.0.1:15001")
	opened(t, &transparently, "tcp4", "127.0.0.1:15002")
	health := opened(t, &net.ListenConfig{}, "tcp4", "127.0.0.1:15009")
	before := wantListening(t, "it is there", nil)
	must(t, wantListening(t, "it stays", nil).ServingStill(before))
	must(t, health.Close())
	opened(t, &net.ListenConfig{}, "tcp4", "127.0.0.1:15009")
	if err := wantListening(t, "it is another", nil).ServingStill(before); !errors.Is(err, errAnother) {
		t.Errorf("another listens: %v", err)
	}
}

func wantListening(t *testing.T, when string, want error) Listeners {
	t.Helper()
	got, err := Listening(ports.Default())
	must(t, err)
	if err := got.Serving(); !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", when, err, want)
	}
	return got
}

func opened(t *testing.T, by *net.ListenConfig, network, address string) net.Listener {
	t.Helper()
	l, err := by.Listen(t.Context(), network, address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
