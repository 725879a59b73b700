package node

import (
	"fmt"

	"github.com/gridmesh/gridmesh/xds/admin"
)

// Load is how near Envoy is to what it may use.
type Load struct {
	admin.Overload
	// Newly are the connections that it refused since it was asked before, for
	// it had as many as it takes.
	Newly uint64 `json:"newlyRefused"`
}

// loads takes what Envoy says of its load. What it refused before it was first
// asked is old news.
func (e *envoyAsker) loads(o admin.Overload) *Load {
	l := &Load{Overload: o}
	switch before := e.refused; {
	case o.Refused < before: // a new Envoy
		l.Newly = o.Refused
	case e.asked:
		l.Newly = o.Refused - before
	}
	e.refused, e.asked = o.Refused, true
	if l.Newly > 0 || l.Stopped {
		e.full.say(e.log.Warn, "Envoy takes no more connections: "+l.why()+"; status says how many are open")
	}
	return l
}

// why says what there is too much of.
func (l *Load) why() string {
	if l.Stopped {
		return fmt.Sprintf("its memory is full (%d %% of --envoy-heap-limit)", l.Heap)
	}
	return "it has as many as --envoy-heap-limit leaves room for"
}

// lines says how loaded Envoy is, where it says so.
func (l *Load) lines(p *printer) {
	text := fmt.Sprintf("%d connections of clients are open", l.Connections)
	if l.Heap > 0 {
		text += fmt.Sprintf(", %d %% of its memory is used", l.Heap)
	}
	p.line("envoy", "%s", text)
	switch {
	case l.Stopped || l.Newly > 0:
		p.line("overload", "takes no more connections: %s; %d were refused since its start, %d of them just now; look for who holds them, or raise the limit", l.why(), l.Refused, l.Newly)
	case l.Refused > 0:
		p.line("overload", "%d connections were refused since Envoy's start, none just now", l.Refused)
	}
}
