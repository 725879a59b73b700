package report

import (
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
)

// Fault is what keeps connections from Envoy, or Envoy from what it is to do.
type Fault struct {
	What string
	Then string // what of that those feel who dial; "" where What says it
}

// absentText is of the kernel path that serves for Envoy.
const absentText = "takes no connections: the kernel serves the first tier of what it served"

// Faults lists what is wrong with Envoy, as far as the agent knows, with what it
// refuses where that matters.
func (r *Report) Faults(matters func(xds.Nack) bool) (list []Fault) {
	add := func(then, format string, args ...any) {
		list = append(list, Fault{What: fmt.Sprintf(format, args...), Then: then})
	}
	if r.EnvoyUnknown != "" {
		add("", "it cannot be asked whether Envoy serves: %s", r.EnvoyUnknown)
	}
	if r.BesideKubeProxy && len(r.Envoys) == 0 {
		return list // it is not needed yet
	}
	if r.EnvoyAbsent {
		add("", "Envoy %s", absentText)
		return list
	}
	if len(r.Envoys) == 0 {
		add("captured connections are refused unless one still runs with what it holds", "no Envoy is connected")
		return list
	}
	for _, e := range r.Envoys {
		if e.Over > 0 {
			add("a connection to one of those ends until it is preloaded", "Envoy asked for %d clusters more than it gets", e.Over)
		}
	}
	for _, n := range r.Nacks {
		if matters(n) {
			add("Envoy goes on with what it had of it", "Envoy refuses %s %s (service %s): %s", n.Type, n.Name, n.Service, n.Reason)
		}
	}
	if r.MoreNacks > 0 {
		add("", "Envoy refuses %d resources more", r.MoreNacks)
	}
	if l := r.Load; l != nil && l.Full() {
		add("", "Envoy takes no more connections: %s", l.Why())
	}
	return list
}

// NeedsEnvoy reports whether connections are handed to Envoy: with one path always;
// with two where any frontend is its, and the kernel does not serve for it, nor instead
// of it while kube-proxy's rules are there.
func (r *Report) NeedsEnvoy() bool { return r.EnvoyHasPart() && !r.kernelInstead() }

// kernelInstead reports whether the kernel gets the new connections that are Envoy's.
func (r *Report) kernelInstead() bool { return r.EnvoyAbsent || r.BesideKubeProxy }

// InsteadText says why the kernel gets the new connections that are Envoy's; "" where it
// does not.
func (r *Report) InsteadText(now time.Time) string {
	switch back := r.backText(now); {
	case r.BesideKubeProxy:
		return "kube-proxy: " + r.besideText(now)
	case r.EnvoyAbsent && back != "":
		return "Envoy " + absentText + "; it " + back
	case r.EnvoyAbsent:
		return "Envoy " + absentText
	}
	return ""
}

// PoliciesText says why the kernel serves all, where that is for NetworkPolicies; "" where
// it is not.
func (r *Report) PoliciesText(now time.Time) string {
	if text := r.policiesText(now); text != "" {
		return "NetworkPolicies: " + text
	}
	return ""
}

// pathsText says what serves how many frontends at the moment, and how many nobody may, as
// gridmesh view has them.
func (r *Report) pathsText() string {
	p, refused := *r.Paths, ""
	if p.Refused > 0 {
		refused = fmt.Sprintf(", %d refused", p.Refused)
	}
	p.Envoy, p.Kernel = p.Envoy-p.RefusedEnvoy, p.Kernel-(p.Refused-p.RefusedEnvoy)
	if r.kernelInstead() {
		p.Envoy, p.Kernel = 0, p.Kernel+p.Envoy
	}
	return fmt.Sprintf("%s: %d frontends by Envoy, %d by the kernel%s; gridmesh view --datapath %s names them", r.Datapath, p.Envoy, p.Kernel, refused, r.Datapath)
}

// EnvoyHasPart reports whether anything is Envoy's to serve, whoever gets its connections at
// the moment.
func (r *Report) EnvoyHasPart() bool {
	if r.Paths == nil {
		return r.Datapath != topology.DatapathKernel.String()
	}
	return r.Paths.Envoy > 0
}

// backText says when an absent Envoy gets connections again; "" where it does not serve.
func (r *Report) backText(now time.Time) string {
	if r.EnvoyBack.IsZero() {
		return ""
	}
	return fmt.Sprintf("serves again, and gets new connections in %s if it goes on", max(since(now, r.EnvoyBack), 0))
}

// besideText says why the kernel serves what Envoy would, where kube-proxy was.
func (r *Report) besideText(now time.Time) string {
	if r.KubeProxyUntil.IsZero() {
		return "its rules are on this node, behind those of gridmesh: the kernel serves all"
	}
	return fmt.Sprintf("its rules are gone from this node: Envoy gets connections in %s if they stay away", max(since(now, r.KubeProxyUntil), 0))
}

// policiesText says why the kernel serves what Envoy would; "" where it does not.
func (r *Report) policiesText(now time.Time) string {
	switch {
	case !r.Policies || r.Datapath == "":
		return ""
	case r.PoliciesUnknown:
		return "it is not known yet that there are none: the kernel serves all until then"
	case !r.PoliciesUntil.IsZero():
		return fmt.Sprintf("the cluster has none any more: the kernel serves all for %s yet, for they may come again", max(since(now, r.PoliciesUntil), 0))
	}
	asOf := ""
	if !r.PoliciesSeen.IsZero() {
		asOf = fmt.Sprintf(" as of %s ago, and is asked again every two minutes", max(since(r.PoliciesSeen, now), 0))
	}
	return "the cluster has some" + asOf + ": the kernel serves all, for what goes through Envoy passes by them"
}

// policiesLate is how old the word that there are no NetworkPolicies may be: the API server is
// asked again within two and a half minutes, and watched meanwhile.
const policiesLate = 3 * time.Minute

// unwatchedText says that nobody knows whether NetworkPolicies have come, and since when; ""
// where that is known, or is no matter.
func (r *Report) unwatchedText(now time.Time) string {
	const bypassed = "; of one that has come since what goes through Envoy knows nothing, until the API server has been asked again"
	switch {
	case r.Policies:
		return ""
	case r.PoliciesUnasked:
		return "the cluster had none when an agent before this one asked, and this one has no answer yet" + bypassed
	case !r.PoliciesNone.IsZero() && now.Sub(r.PoliciesNone) > policiesLate:
		return fmt.Sprintf("not watched: the cluster had none %s ago, and has not said so since", since(r.PoliciesNone, now)) + bypassed
	}
	return ""
}
