package dnsplugin

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/topology"
)

// Grid is the plugin.
type Grid struct {
	Next  plugin.Handler
	Zones []string
	Fall  fall.F

	cfg         config
	feed        feed
	disk        disk
	snapshotAt  atomic.Pointer[time.Time] // when the snapshot that is answered from, or was, was written; nil for none
	answers     answer.Config
	viewer      *topology.Viewer // one owner: publish
	nodeMissing bool             // this node is not in the data; same owner
	pending     waiting          // questions that wait for the next plugin
	passing     waiting          // others that are its alone
	behind      waiting          // others that wait for newer data, with its reply at hand
	known       known            // names that the next plugin alone has
	now         atomic.Pointer[state]
}

// state is what is answered from.
type state struct {
	index *answer.Index
	from  origin
	at    time.Time
}

// origin is where the data is from.
type origin string

const (
	fromSnapshot origin = "snapshot"
	fromSource   origin = "source"
	fromPart     origin = "part" // of what the source is to say: what is not in it may exist
)

// publish makes a snapshot what is answered from.
func (g *Grid) publish(s *topology.Snapshot, from origin) {
	if g.viewer == nil {
		g.viewer = topology.NewViewer(g.cfg.node, g.cfg.view)
	}
	last := state{index: answer.New(g.answers)}
	if now := g.now.Load(); now != nil {
		last = *now
	}
	view := g.viewer.See(s)
	next := &state{index: last.index.Next(view), from: from, at: time.Now()}
	g.now.Store(next)
	if from != last.from {
		debug.FreeOSMemory() // what the first data was decoded from
	}
	services, hosts := next.index.Len()
	if missing := !view.Viewpoint.Known; missing != g.nodeMissing {
		if g.nodeMissing = missing; missing {
			log.Warningf("node %q is not in the data: it is in no unit, and names of grids are empty; mend the option node, or wait for the Node", g.cfg.node)
		}
	}
	if from != last.from {
		log.Infof("known: %d Services and %d names below them, from the %s", services, hosts, g.origin(from))
	}
	entries.WithLabelValues("service").Set(float64(services))
	entries.WithLabelValues("host").Set(float64(hosts))
	updated.Set(float64(next.at.UnixMilli()) / 1000)
}

// origin says in words where the data is from.
func (g *Grid) origin(from origin) string {
	switch from {
	case fromSnapshot:
		return fmt.Sprintf("snapshot %s of %s, until the source %s answers", g.cfg.snapshot, g.snapshotAt.Load().UTC().Format(time.RFC3339), g.cfg.source)
	case fromPart:
		return fmt.Sprintf("source %s, which has but a part of the data until the cloud is back; other names go to the next plugin", g.cfg.source)
	}
	return "source " + g.cfg.source.String()
}

// Name implements plugin.Handler.
func (g *Grid) Name() string { return pluginName }

// Ready implements ready.Readiness: names resolve, from the source or from the
// last snapshot; of a part some do.
func (g *Grid) Ready() bool {
	now := g.now.Load()
	return now != nil && now.from != fromPart
}

// ServeDNS implements plugin.Handler.
func (g *Grid) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	req := request.Request{W: w, Req: r}
	qname := req.Name()
	zone := plugin.Zones(g.Zones).Matches(qname)
	now := g.now.Load()
	if zone == "" || now == nil || req.QClass() != dns.ClassINET {
		return g.pass(ctx, w, r, "")
	}
	m := &dns.Msg{}
	result := g.fill(m, now.index, &req, zone)
	if now.from == fromPart && result != answer.Found {
		result = answer.Passed
	}
	if result == answer.NotFound {
		reply, busy := g.askNext(ctx, &req)
		if reply != nil {
			result, busy = g.catchUp(m, now, &req, zone, reply)
		}
		switch {
		case busy, reply == nil && g.known.has(qname):
			requests.WithLabelValues(metrics.WithServer(ctx), "failed").Inc()
			return dns.RcodeServerFailure, nil
		case reply != nil && result == answer.NotFound:
			g.known.set(qname, reply.Rcode == dns.RcodeSuccess)
			requests.WithLabelValues(metrics.WithServer(ctx), "passed").Inc()
			return dns.RcodeSuccess, w.WriteMsg(reply)
		}
	}
	if result == answer.Passed || result == answer.NXDomain && g.Fall.Through(qname) {
		return g.pass(ctx, w, r, zone)
	}
	return g.reply(ctx, w, r, m, result, g.soa(zone, now))
}

// reply writes an answer, or that there is none.
func (g *Grid) reply(ctx context.Context, w dns.ResponseWriter, r, m *dns.Msg, result answer.Result, soa dns.RR) (int, error) {
	m.SetReply(r)
	m.Authoritative = true
	label := "data"
	if result != answer.Found {
		m.Rcode, label = dns.RcodeNameError, "nxdomain"
	}
	if len(m.Answer) == 0 {
		if label == "data" {
			label = "nodata"
		}
		m.Ns = []dns.RR{soa}
	}
	requests.WithLabelValues(metrics.WithServer(ctx), label).Inc()
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, err
	}
	return dns.RcodeSuccess, nil
}
