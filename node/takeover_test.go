package node

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/topology"
)

// otherProxy is a kube-proxy on the node.
type otherProxy struct {
	mu      sync.Mutex
	rules   kubeproxy.Rules
	signs   kubeproxy.Signs
	removed int
	unread  error

	meanwhile func(*kubeproxy.Rules) // what happens while they are removed; nil: nothing
}

const runs = "process 7 is kube-proxy"

func (p *otherProxy) Look() (kubeproxy.Rules, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules, p.unread
}

func (p *otherProxy) Alive() (kubeproxy.Signs, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signs, nil
}

func (p *otherProxy) Remove() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed++
	p.rules.Nftables, p.rules.Iptables, p.rules.Written = nil, nil, ""
	if p.meanwhile != nil {
		p.meanwhile(&p.rules)
	}
	return nil
}

// times is how often its rules were removed.
func (p *otherProxy) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.removed
}

func (p *otherProxy) set(edit func(*otherProxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	edit(p)
}

// besideRig is a node with both paths, and rules of kube-proxy on it.
func besideRig(t *testing.T, rules kubeproxy.Rules, process string) *rig {
	t.Helper()
	r := newRig(t)
	r.withKernelPath(topology.DatapathAuto)
	r.cfg.TakeOver, r.proxy = true, &otherProxy{rules: rules, signs: kubeproxy.Signs{Process: process}}
	r.found = []capture.Finding{{Kind: capture.KubeProxy, Text: "rules of kube-proxy"}}
	return r
}

// wantBeside compares who gets new connections, and what the status says of kube-proxy.
func (r *rig) wantBeside(t *testing.T, when string, beside bool, says string, removed int) {
	t.Helper()
	status, text := r.agent.status(), ""
	for _, f := range status.Findings {
		if f.Kind == capture.KubeProxy {
			text += f.Text
		}
	}
	rules, _ := r.kernel.InForce()
	if rules.Absent != beside || status.BesideKubeProxy != beside || r.proxy.times() != removed {
		t.Errorf("%s: past Envoy %v, in the status %v, want %v; removed %d times, want %d", when, rules.Absent, status.BesideKubeProxy, beside, r.proxy.times(), removed)
	}
	if (says == "") != (text == "") || !strings.Contains(text, says) {
		t.Errorf("%s: the status says %q, want %q", when, text, says)
	}
	r.wantPaths(t, when, []string{webFrontend}, []string{webFrontend})
	r.wantHealthy(t, when, true)
}

// An agent that takes over starts beside kube-proxy, gives Envoy nothing while its rules
// are there, removes them once it serves and kube-proxy is gone, and then gives Envoy its own.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{Nftables: []string{"ip", "ip6"}, Written: "1"}, runs)
		r.mustStart(t)
		if did := r.journal.Take(); did[0] != "EnvoyAbsent(true)" && did[1] != "EnvoyAbsent(true)" || did[2] != "Install" {
			t.Errorf("the first it did is %v", did)
		}
		after(time.Hour)
		if r.proxy.times() > 0 {
			t.Error("rules are removed before anything is served")
		}
		r.publish(webOnly())
		after(time.Hour)
		r.wantBeside(t, "kube-proxy runs", true, runs, 0)
		if alive := r.agent.status().KubeProxyAlive; alive != runs {
			t.Errorf("the status says of it %q", alive)
		}
		r.proxy.set(func(p *otherProxy) { p.signs = kubeproxy.Signs{} })
		after(proxyRarely + proxyQuiet/2)
		r.wantBeside(t, "it may be back", true, "no sign of kube-proxy", 0)
		after(proxyQuiet)
		r.wantBeside(t, "its rules are gone, and it may be back", true, "", 1)
		if until := r.agent.status().KubeProxyUntil; until.IsZero() {
			t.Error("the status does not say when Envoy serves")
		}
		after(proxyFirst)
		r.wantBeside(t, "they stay away", false, "", 1)
		r.proxy.set(func(p *otherProxy) { p.rules.Nftables, p.rules.Written = []string{"ip"}, "2" })
		after(proxyEvery)
		r.wantBeside(t, "kube-proxy is back", true, whoWrote, 1)
		if alive := r.agent.status().KubeProxyAlive; alive != whoWrote {
			t.Errorf("the status says of it %q", alive)
		}
		after(time.Hour)
		r.wantBeside(t, "and lives", true, "restart the agent", 1)
		r.proxy.set(func(p *otherProxy) { p.signs.Process = runs })
		after(time.Hour)
		r.wantBeside(t, "its process is seen", true, runs, 1)
		r.proxy.set(func(p *otherProxy) { p.signs.Process = "" })
		after(proxyRarely + proxyQuiet + proxyEvery)
		r.wantBeside(t, "and its end", true, "", 2)
		after(2 * proxyFirst)
		r.wantBeside(t, "it stays away", false, "", 2)
		r.proxy.set(func(p *otherProxy) { p.rules.Nftables, p.rules.Written = []string{"ip"}, "3" })
		after(time.Hour)
		r.wantBeside(t, "it is back, and nobody sees it", true, whoWrote, 2)
		r.proxy.set(func(p *otherProxy) { p.rules.Nftables, p.rules.Written = nil, "" })
		after(4*proxyFirst + proxyRarely)
		r.wantBeside(t, "somebody cleaned up", false, "", 2)
	})
}

// Who writes rules while those are removed that one left is alive.
func TestWhoWritesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{Iptables: []string{"ip"}, Written: "1"}, "")
		r.proxy.meanwhile = func(now *kubeproxy.Rules) { now.Nftables, now.Written = []string{"ip"}, "2" }
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Hour)
		r.wantBeside(t, "another is there", true, whoWrote, 1)
	})
}

// Before gridmesh serves by the API server's word nothing is removed: what is left serves.
func TestNothingIsRemovedBeforeItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{Iptables: []string{"ip"}}, "")
		r.mustStart(t)
		after(time.Hour)
		if r.proxy.times() > 0 {
			t.Error("removed before anything is served")
		}
		if status := r.agent.status(); !status.TakeOver || !status.BesideKubeProxy {
			t.Errorf("before a snapshot the status has: takes over %v, beside kube-proxy %v", status.TakeOver, status.BesideKubeProxy)
		}
		r.publish(webOnly())
		after(2 * proxyEvery)
		r.wantBeside(t, "it is served", true, "", 1)
	})
}

// What the agent cannot remove is said, with who can, and what cannot be looked at is
// not taken for gone.
func TestWhatStaysOfKubeProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{Old: []string{"iptables-legacy"}}, "")
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Hour)
		r.wantBeside(t, "the old iptables", true, "run kube-proxy --cleanup", 0)
		r.proxy.set(func(p *otherProxy) { p.rules, p.unread = kubeproxy.Rules{}, errBroken })
		after(time.Hour)
		r.wantBeside(t, "unread", true, errBroken.Error(), 0)
		r.proxy.set(func(p *otherProxy) { p.unread = nil })
		after(proxyFirst + 2*proxyEvery)
		r.wantBeside(t, "gone", false, "", 0)
	})
}

// Where nothing of kube-proxy was there, and nobody can look whether that is so still, it is
// said as that alone: nothing is known of rules, and Envoy goes on serving.
func TestKubeProxyThatCannotBeLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{}, runs)
		r.found = nil
		r.mustStart(t)
		r.publish(webOnly())
		after(2 * askServesEvery)
		r.proxy.set(func(p *otherProxy) { p.unread = errBroken })
		after(2 * proxyRarely)
		r.wantBeside(t, "unread", false, "rules of kube-proxy could not be looked at: "+errBroken.Error(), 0)
		if status := r.agent.status(); status.KubeProxyAlive != "" {
			t.Errorf("the status says of it %q", status.KubeProxyAlive)
		}
		if now, _ := r.agent.beside.Get(); now != (beside{}) {
			t.Errorf("told to the loop: %+v", now)
		}
		r.proxy.set(func(p *otherProxy) { p.unread = nil })
		after(2 * proxyRarely)
		r.wantBeside(t, "looked at again", false, "", 0)
		r.proxy.set(func(p *otherProxy) { p.rules, p.unread = kubeproxy.Rules{Nftables: []string{"ip"}}, errBroken })
		after(2 * proxyRarely)
		r.wantBeside(t, "half a look shows some", true, "table ip kube-proxy) are on this node", 0)
	})
}

// A look of which a part failed is none that later ones are compared with: what it did not
// see was not written since.
func TestTheFirstLookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{Iptables: []string{"ip"}, Written: "ip 1;"}, "")
		r.proxy.unread = errBroken
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Minute)
		r.wantBeside(t, "unread", true, errBroken.Error(), 0)
		r.proxy.set(func(p *otherProxy) {
			p.rules, p.unread = kubeproxy.Rules{Iptables: []string{"ip", "ip6"}, Written: "ip 1;ip6 1;"}, nil
		})
		after(2 * proxyEvery)
		r.wantBeside(t, "what is left is removed", true, "", 1)
	})
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{Iptables: []string{"ip"}, Written: "1"}, "")
		r.proxy.unread = errBroken
		r.mustStart(t)
		after(proxyEvery)
		r.proxy.set(func(p *otherProxy) { p.unread = nil })
		after(time.Minute)
		r.proxy.set(func(p *otherProxy) { p.rules.Written = "2" })
		r.publish(webOnly())
		after(time.Minute)
		r.wantBeside(t, "one that writes after it lives", true, whoWrote, 0)
	})
}

// Whom the kernel path cannot come before keeps an agent from starting, and so does any
// kube-proxy that it is not to take over from.
func TestTakeOverIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{IPVS: true}, "")
		if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "mode nftables") {
			t.Errorf("beside ipvs: %v", err)
		}
		if _, there := r.kernel.InForce(); there {
			t.Error("rules were written")
		}
		r.again()
		r.capture.WithKernelPath()
		r.cfg.TakeOver, r.proxy = false, nil
		if err := r.start(t); !errors.Is(err, ErrUnfit) {
			t.Errorf("without the flag: %v", err)
		}
	})
}

// It wants a kernel path, for Envoy can be handed nothing beside kube-proxy.
func TestTakeOverNeedsAKernelPath(t *testing.T) {
	r := newRig(t)
	r.cfg.TakeOver = true
	if err := r.cfg.Validate(); err == nil || !strings.Contains(err.Error(), "--datapath, or auto or kernel") {
		t.Errorf("got %v", err)
	}
}

// Without any rules of kube-proxy Envoy serves from the start on.
func TestTakeOverFromNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := besideRig(t, kubeproxy.Rules{}, "")
		r.found = nil
		r.mustStart(t)
		r.publish(webOnly())
		after(2 * askServesEvery)
		r.wantBeside(t, "nobody", false, "", 0)
	})
}
