package node

import (
	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/topology"
)

// manifestsGone is the finding where manifests are all gone at once.
const manifestsGone capture.FindingKind = "manifests"

const manifestsGoneText = "--manifests has nothing, no Service, no Node and no ServiceCIDR, and that is not believed: what is in force stays, if anything is; see that its volume is " +
	"mounted and its copy complete, or leave a Node there, where no Service is to be served"

// emptied is that the source's newest is not believed, for it has nothing any more: a
// directory that is a volume which is not mounted, or a copy that has just begun, more often than
// somebody's wish.
type emptied bool

// disbelieves reports whether a snapshot is not to be acted on. Of an API server its feed
// judges that.
func (l *loop) disbelieves(snap *topology.Snapshot) bool {
	is := emptied(l.parts.Cluster == nil && !hasAny(snap) && l.hadAny())
	if is != l.emptied {
		l.emptied = is
		l.judgeOwn()
	}
	if is && l.view == nil && l.restored != nil {
		l.serveRestored()
	}
	return bool(is)
}

// hadAny reports whether anything was served before, or may have been: by a run before,
// of which the disk has not told yet, or has lost what it was.
func (l *loop) hadAny() bool {
	switch {
	case l.raw != nil:
		return hasAny(l.raw)
	case l.restored != nil:
		return hasAny(l.restored.Snapshot)
	}
	return l.unread.state != nil || l.capture.Found()
}

func hasAny(snap *topology.Snapshot) bool {
	return snap.Services.Len() > 0 || snap.Nodes.Len() > 0 || len(snap.ServiceCIDRs) > 0
}

// finding is what is to be said of it.
func (e emptied) finding() (list []capture.Finding) {
	if e {
		list = append(list, capture.Finding{Kind: manifestsGone, Text: manifestsGoneText})
	}
	return list
}
