package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/report"
)

// proxyEvery is how often an agent that takes over looks at kube-proxy, and proxyRarely
// how often where that runs.
const proxyEvery, proxyRarely = time.Second, 5 * time.Second

// Envoy gets connections once kube-proxy's rules are gone, and stay so. That proves no end of
// it: in mode iptables it looks every 30 s whether its own are there, in others it may be its
// next change, within an hour or two, that brings them back.
const (
	proxyFirst = 35 * time.Second
	proxyMost  = 10 * time.Minute
	proxyCalm  = 30 * time.Minute
)

// KubeProxy is that of this node, for an agent that takes over from it.
type KubeProxy interface {
	// Look reads which rules of it are there.
	Look() (kubeproxy.Rules, error)
	// Alive looks for signs that it runs.
	Alive() (kubeproxy.Signs, error)
	// Remove takes away what it left.
	Remove() error
}

// beside is what is known of kube-proxy's rules, from who looks to the loop.
type beside struct {
	so    bool      // what counts: new connections take the kernel path, which comes before them
	until time.Time // of so: when Envoy gets connections, if they stay away; zero where they are there
	alive string    // of so: why kube-proxy counts as running; "" where it does not
	ports bool      // of so: kube-proxy's ports are left to it, for they show whether it runs
}

// takeover is what one who looks at kube-proxy keeps.
type takeover struct {
	counts damper
	life   proxyLife
	other  string // the first that was seen at kube-proxy's ports and is no sign: who comes and goes is no news each time
	said   string
}

// inspectProxy looks at kube-proxy before anything is written. What the agent cannot
// come before keeps it from starting.
func (a *Agent) inspectProxy() (there bool, err error) {
	if a.parts.KubeProxy == nil {
		return false, nil
	}
	rules, err := a.parts.KubeProxy.Look()
	if rules.IPVS {
		return true, errors.New("kube-proxy (ipvs) owns the ClusterIPs on link " + kubeproxy.Link + ", and --take-over=kube-proxy cannot come before that: give kube-proxy the mode nftables first, or stop it and run: kube-proxy --cleanup (docs/migrate.md)")
	}
	a.proxyAtStart = proxyLife{written: rules.Written, blind: err != nil}
	if err != nil {
		a.log.Warn("could not look at all of kube-proxy's rules; they are taken for being there, and looked at again", obs.KeyErr, err)
		return true, nil
	}
	return !rules.None(), nil
}

// comeBefore has all that is new take the kernel path, from the first rule on: what Envoy
// is handed would be translated by kube-proxy on its way.
func (a *Agent) comeBefore() error {
	if !a.proxyFound {
		return nil
	}
	a.log.Info("rules of kube-proxy are on this node: those of the kernel path come before them, and Envoy gets no connections until they are gone")
	a.beside.Publish(beside{so: true, ports: true})
	return a.parts.Capture.EnvoyAbsent(true)
}

// followProxy keeps looking at kube-proxy, and removes what it left once this node is
// served and there has been no sign of it for a while.
func (a *Agent) followProxy(ctx context.Context) error {
	t := takeover{counts: damper{first: proxyFirst, most: proxyMost, calm: proxyCalm}, life: a.proxyAtStart}
	t.counts.take(a.proxyFound, time.Now())
	for {
		next := proxyEvery
		if a.lookAtProxy(&t, time.Now()) {
			next = proxyRarely
		}
		if !run.Pause(ctx, next) {
			return nil
		}
	}
}

// lookAtProxy looks once, acts, and reports whether kube-proxy runs.
func (a *Agent) lookAtProxy(t *takeover, now time.Time) (runs bool) {
	rules, err := a.parts.KubeProxy.Look()
	there, alive := err != nil || !rules.None(), ""
	if there {
		signs, unseen := a.parts.KubeProxy.Alive()
		if err != nil {
			rules.Written = t.life.written // nobody knows
		}
		t.life.compare(rules.Written, err == nil)
		alive = t.life.take(rules.Written, signs, unseen, now)
		t.other = cmp.Or(t.other, signs.Other)
	} else {
		t.life.none()
		t.other = ""
	}
	why := ""
	if there && err == nil {
		if why = a.waits(t, rules, alive, now); why == "" {
			var failed error
			if rules, failed = a.removeProxy(t, rules); failed != nil {
				why = "they could not be removed: " + failed.Error()
			}
		} else if t.other != "" {
			why += " (" + t.other + ")"
		}
	}
	if err != nil && rules.None() {
		t.counts.unknown()
	} else {
		t.counts.take(!rules.None(), now) // what half a look shows is there
	}
	next := beside{}
	if t.counts.so {
		next = beside{so: true, until: t.counts.until(), alive: alive, ports: there && !t.life.leaves(now)}
	}
	if was, _ := a.beside.Get(); was != next {
		a.beside.Publish(next)
		fill(a.paths)
	}
	a.tellProxy(t, t.text(rules.Text(), why, err))
	return alive != ""
}

// removeProxy takes away what is there, and looks what is left.
func (a *Agent) removeProxy(t *takeover, was kubeproxy.Rules) (kubeproxy.Rules, error) {
	err := a.parts.KubeProxy.Remove()
	rules, unread := a.parts.KubeProxy.Look()
	if unread != nil {
		return was, errors.Join(err, unread)
	}
	if err != nil {
		t.life.written = rules.Written // what is new of it is the agent's own doing
		return rules, err
	}
	t.life.written = "" // what is there all the same was written since
	a.log.Info("removed what kube-proxy left on this node", obs.KeyWhich, was.Text())
	return rules, nil
}

// waits says why what is there of kube-proxy is not removed now; "" where it is, or
// nothing is there.
func (a *Agent) waits(t *takeover, rules kubeproxy.Rules, alive string, now time.Time) string {
	last := a.report.Load()
	unserved := last == nil || last.Source != report.Live || last.Error != ""
	switch {
	case rules.None():
		return ""
	case alive != "" && unserved:
		return "kube-proxy runs (" + alive + "), and serves what gridmesh does not yet: do not stop it before gridmesh serves"
	case t.life.wrote:
		return "kube-proxy runs (" + alive + "): stop it here, and restart the agent then, or run kube-proxy --cleanup"
	case alive != "":
		return "kube-proxy runs (" + alive + "): stop it here, and they are removed"
	case rules.Stays():
		return "the agent cannot remove them: run kube-proxy --cleanup (docs/migrate.md)"
	case !t.life.gone(now):
		return "they are removed once there is no sign of kube-proxy for some seconds"
	case unserved || !last.BesideKubeProxy:
		return "they serve what gridmesh does not yet, and are removed once this node is served"
	}
	return ""
}

// text says what is there, and what is waited for; "" for nothing.
func (t *takeover) text(what, why string, unread error) string {
	switch {
	case unread != nil && !t.counts.so:
		return "rules of kube-proxy could not be looked at: " + unread.Error()
	case unread != nil:
		why = "not all of them could be looked at: " + unread.Error()
	case why == "":
		return ""
	}
	if what != "" {
		what = " (" + what + ")"
	}
	return fmt.Sprintf("rules of kube-proxy%s are on this node behind those of gridmesh, and nothing new is handed to Envoy: %s", what, why)
}

// tellProxy has the status say it.
func (a *Agent) tellProxy(t *takeover, text string) {
	if text == t.said {
		return
	}
	t.said = text
	var list []capture.Finding
	if text != "" {
		list = []capture.Finding{{Kind: capture.KubeProxy, Text: text}}
	}
	a.show(a.found.replaceProxy(list))
}

// takeBeside has the kernel serve for Envoy while kube-proxy's rules are there.
func (l *loop) takeBeside() {
	now, _ := l.beside.Get()
	was := l.proxy
	if now == was {
		return
	}
	l.proxy = now
	if now.so != was.so {
		if !now.so {
			l.said.proxied.Say(l.log.Info, "rules of kube-proxy are gone from this node, and stay so: Envoy serves, too")
		} else {
			l.said.proxied.Say(l.log.Warn, "rules of kube-proxy are on this node: the kernel serves all, before them")
		}
		l.tellPath()
	}
	l.publish()
}

// tellPath tells the kernel whether Envoy gets new connections.
func (l *loop) tellPath() {
	if err := l.capture.EnvoyAbsent(l.envoys.absent || l.proxy.so); err != nil {
		l.said.write.Say(l.log.Error, "could not write which path connections take; trying again", obs.KeyErr, err)
		l.metrics.syncFailures.Inc()
		l.broken = err
		l.pace.hurry()
	}
}
