package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/internal/run"
)

// hidden is a kube-proxy whose process nobody sees: in a container of its own, and the
// agent in another. One port is all that shows it, where the agent does not have that.
type hidden struct {
	*otherProxy
	mu    sync.Mutex
	has   string // who has the port: "", "kube-proxy" or "agent"
	stops chan struct{}
}

// begin starts it: it writes its rules, and takes its port or tries again every 5 s.
func (h *hidden) begin() {
	h.set(func(p *otherProxy) { p.rules.Nftables, p.rules.Written = []string{"ip"}, p.rules.Written+"+" })
	stops := make(chan struct{})
	h.stops = stops
	go func() {
		for !h.take("kube-proxy") {
			select {
			case <-time.After(5 * time.Second):
			case <-stops:
				return
			}
		}
	}()
	synctest.Wait()
}

// end stops it. What it wrote stays.
func (h *hidden) end() {
	close(h.stops)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has == "kube-proxy" {
		h.has = ""
		h.set(func(p *otherProxy) { p.signs = kubeproxy.Signs{} })
	}
}

// take takes the port, and reports whether it was free.
func (h *hidden) take(who string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has != "" {
		return false
	}
	if h.has = who; who == "kube-proxy" {
		h.set(func(p *otherProxy) { p.signs.Port = "somebody listens" })
	}
	return true
}

func (h *hidden) holder() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.has
}

// listenFor is the agent, which wants the port, too.
func (h *hidden) listenFor(t *testing.T, a *Agent) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	t.Cleanup(func() { stop(); must(t, <-ended) })
	s := server{name: "healthz", late: &a.found.healthz}
	s.listen = func(string, *slog.Logger) (net.Listener, error) {
		if !h.take("agent") {
			return nil, unix.EADDRINUSE
		}
		return nobody{}, nil
	}
	s.serve = func(ctx context.Context, _ net.Listener) error {
		<-ctx.Done()
		return nil
	}
	go func() { ended <- a.serveLater(ctx, s) }()
	synctest.Wait()
}

// nobody dials it.
type nobody struct{ net.Listener }

func (nobody) Close() error { return nil }

func hiddenRig(t *testing.T) (*rig, *hidden) {
	t.Helper()
	r := besideRig(t, kubeproxy.Rules{}, "")
	h := &hidden{otherProxy: r.proxy}
	return r, h
}

// A kube-proxy of which its port is the only sign is restarted, at once or after a while:
// the agent leaves it its port, or knows it by what it writes, and never removes what is
// a living one's.
func TestTakeOverFromOneThatIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := hiddenRig(t)
		h.begin()
		r.mustStart(t)
		h.listenFor(t, r.agent)
		r.publish(webOnly())
		want := func(when, holder string, removed int) {
			t.Helper()
			if h.holder() != holder || r.proxy.times() != removed {
				t.Errorf("%s: %q has the port, want %q; removed %d times, want %d", when, h.holder(), holder, r.proxy.times(), removed)
			}
		}
		after(time.Hour)
		want("beside", "kube-proxy", 0)
		for range 3 {
			h.end()
			after(4 * time.Second)
			want("it is restarted", "", 0)
			h.begin()
			after(time.Hour)
			want("it is back", "kube-proxy", 0)
		}
		h.end()
		after(proxyRarely + proxyQuiet + 2*proxyEvery)
		want("it is away for long", "agent", 1)
		h.begin()
		after(24 * time.Hour)
		want("it is back, and cannot have its port", "agent", 1)
		r.wantBeside(t, "nobody sees it", true, whoWrote, 1)
		h.end()
	})
}

// An agent that is restarted beside one finds its port free, for the agent before had it.
func TestTakeOverFromOneWithoutItsPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := hiddenRig(t)
		h.take("agent")
		h.begin()
		after(time.Minute)
		h.mu.Lock()
		h.has = "" // the agent before ends
		h.mu.Unlock()
		r.mustStart(t)
		h.listenFor(t, r.agent)
		r.publish(webOnly())
		after(time.Hour)
		if h.holder() != "kube-proxy" || r.proxy.times() > 0 {
			t.Errorf("%q has the port; removed %d times", h.holder(), r.proxy.times())
		}
		h.end()
		after(proxyRarely + proxyQuiet + 2*proxyEvery)
		r.wantBeside(t, "it is gone", true, "", 1)
	})
}

// What cannot be removed keeps the agent from its ports for no longer than that they are
// free: nobody but them says that it lives.
func TestPortsBesideWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := hiddenRig(t)
		r.proxy.rules = kubeproxy.Rules{Old: []string{"iptables-legacy"}}
		r.mustStart(t)
		h.listenFor(t, r.agent)
		r.publish(webOnly())
		after(proxyQuiet + 2*proxyEvery)
		if h.holder() != "agent" {
			t.Errorf("%q has the port", h.holder())
		}
		r.proxy.set(func(p *otherProxy) { p.unread = errBroken })
		r.again()
		h.has = ""
		r.capture.WithKernelPath()
		r.stop()
		r.mustStart(t)
		h.listenFor(t, r.agent)
		after(proxyQuiet + 2*proxyEvery)
		if h.holder() != "agent" {
			t.Errorf("where nobody can look: %q has the port", h.holder())
		}
	})
}

// What keeps the agent from its address is said, whatever it is, and tried again.
func TestServeLaterSaysWhatKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := hiddenRig(t)
		r.found = nil
		r.mustStart(t)
		h.take("kube-proxy")
		h.listenFor(t, r.agent)
		says := func(want string) {
			t.Helper()
			text := ""
			for _, f := range r.agent.found.all() {
				if f.Kind == capture.KubeProxy {
					text += f.Text
				}
			}
			if (text == "") != (want == "") || !strings.Contains(text, want) {
				t.Errorf("it says %q, want %q", text, want)
			}
		}
		says("address already in use")
		h.mu.Lock()
		h.has = ""
		h.mu.Unlock()
		after(proxyEvery)
		says("")
	})
}

// Whoever has an address that is not kube-proxy's by default is a mistake, and ends the start.
func TestAnotherAddressIsNotWaitedFor(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	r := besideRig(t, kubeproxy.Rules{}, "")
	dir := t.TempDir()
	r.cfg.XDSSocket, r.cfg.FeedSocket, r.cfg.StatusSocket = dir+"/xds", dir+"/feed", dir+"/status"
	r.cfg.HealthzAddress, r.cfg.MetricsAddress = "", taken.Addr().String()
	r.agent, err = New(r.cfg, r.parts())
	must(t, err)
	g := &run.Group{}
	_, err = r.agent.open(g)
	must(t, g.Close())
	if !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("opened beside another program: %v", err)
	}
	for address, waits := range map[string]bool{"0.0.0.0:10256": true, "[::1]:10249": true, ":10256": true, ":9100": false, "": false} {
		if (r.agent.late(address, &r.agent.found.healthz) != nil) != waits {
			t.Errorf("%s: waited for %v", address, !waits)
		}
	}
}

// The last that one writes who ends is no sign of another.
func TestTheLastWriteOfWhoEnds(t *testing.T) {
	now, port := time.Unix(1e9, 0), kubeproxy.Signs{Port: "somebody listens"}
	l := proxyLife{written: "1"}
	look := func(when, written string, signs kubeproxy.Signs, unseen error, later time.Duration, alive string, gone bool) {
		t.Helper()
		now = now.Add(later)
		if got := l.take(written, signs, unseen, now); got != alive || l.gone(now) != gone {
			t.Errorf("%s: alive by %q, want %q; gone %v", when, got, alive, l.gone(now))
		}
	}
	look("it is there", "1", port, nil, 0, port.Port, false)
	look("it writes, and has ended", "2", kubeproxy.Signs{}, nil, proxyRarely, "", false)
	look("its last", "3", kubeproxy.Signs{}, nil, proxyQuiet-1, "", false)
	look("not long enough", "3", kubeproxy.Signs{}, nil, proxyQuiet-1, "", false)
	look("gone", "3", kubeproxy.Signs{}, nil, 1, "", true)
	look("somebody writes", "4", kubeproxy.Signs{}, nil, time.Hour, whoWrote, true)
	look("and no more", "4", kubeproxy.Signs{}, nil, time.Hour, whoWrote, true)
	look("nobody can look", "4", kubeproxy.Signs{}, errBroken, 0, "it could not be looked at: "+errBroken.Error(), false)
	look("a sign", "4", port, nil, 0, port.Port, false)
	look("its end", "4", kubeproxy.Signs{}, nil, time.Second, "", false)
	look("for long", "4", kubeproxy.Signs{}, nil, proxyQuiet, "", true)
	l.none()
	look("another, with the first look", "5", kubeproxy.Signs{}, nil, 0, whoWrote, false)
}

// Who has a port of kube-proxy's and is not root is told of, and keeps nothing on the node; but
// where rules are written anew meanwhile that is no last word of another. The port is not free.
func TestWhoHasThePortAndIsNotRoot(t *testing.T) {
	const somebody = "user 1000 had port 10256"
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{Nftables: []string{"ip"}, Written: "1"}, "")
		r.proxy.signs.Other = somebody
		r.mustStart(t)
		after(2 * proxyQuiet)
		r.publish(webOnly())
		after(2 * proxyEvery)
		r.wantBeside(t, "what is left goes all the same", true, "", 1)
		r.proxy.set(func(p *otherProxy) { p.rules.Nftables, p.rules.Written = []string{"ip"}, "2" })
		after(time.Hour)
		r.wantBeside(t, "somebody writes", true, whoWrote, 1)
		r.wantBeside(t, "and it is said who may have done so", true, somebody, 1)
		r.proxy.set(func(p *otherProxy) { p.signs.Other = "" })
		after(2 * proxyEvery)
		r.wantBeside(t, "who comes and goes is no news", true, somebody, 1)
		if alive := r.agent.status().KubeProxyAlive; alive != whoWrote {
			t.Errorf("the status says of it %q", alive)
		}
	})
	now, root, other := time.Unix(1e9, 0), kubeproxy.Signs{Process: runs}, kubeproxy.Signs{Other: somebody}
	l := proxyLife{written: "1"}
	for _, next := range []struct {
		when, written string
		signs         kubeproxy.Signs
		alive         string
		free          bool
	}{
		{"root's runs", "1", root, runs, true},
		{"somebody's is in its place", "2", other, whoWrote, false},
		{"and stays", "2", other, whoWrote, false},
		{"his end shows nothing", "2", kubeproxy.Signs{}, whoWrote, true},
		{"root's again", "3", root, runs, true},
		{"its end", "3", kubeproxy.Signs{}, "", true},
	} {
		now = now.Add(proxyRarely)
		if alive := l.take(next.written, next.signs, nil, now); alive != next.alive || l.free.IsZero() == next.free {
			t.Errorf("%s: alive by %q, want %q; its ports are free since %s", next.when, alive, next.alive, l.free)
		}
	}
}
