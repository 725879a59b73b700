package healthport

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/run"
)

// Bounds of the ports, and of the connections that they have together: each costs
// descriptors, and the rest of the agent needs some, too.
const (
	mostPorts = 1000
	mostConns = 512
	ofAll     = 4  // of the descriptors that the agent may have, one in so many for either
	ofPeer    = 64 // all connections but one in so many are at most one peer's
)

// Bounds are how many ports are answered, in all and of one namespace, and how many
// connections they have together. A load balancer that asks for all of its Services in
// one moment, from one address, has them answered; who holds connections and asks
// nothing loses his own.
type Bounds struct {
	ports, ofNamespace int
	conns              run.Limits
	files              uint64 // the descriptors
}

// BoundsHere are those of this process, by the descriptors that it may have.
func BoundsHere() Bounds {
	files := unix.Rlimit{Cur: unix.RLIM_INFINITY}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	return boundsOf(files.Cur)
}

// boundsOf are those of a process of so many descriptors. A port may have two sockets,
// one of each family.
func boundsOf(files uint64) Bounds {
	ports := max(int(min(mostPorts, files/ofAll/2)), 1)
	conns := max(int(min(mostConns, files/ofAll)), 2)
	return Bounds{ports: ports, ofNamespace: max(ports/2, 1), conns: run.Limits{InAll: conns, OfPeer: conns - max(conns/ofPeer, 1)}, files: files}
}

// Lowered is why fewer ports are answered than there might be; "" where all are.
func (b Bounds) Lowered() string {
	if b.ports == mostPorts {
		return ""
	}
	return fmt.Sprintf("the agent may have %d open files (RLIMIT_NOFILE), of which one in %d is for these ports", b.files, ofAll)
}

// cure is what to do for a Service of which load balancers are not answered.
func (b Bounds) cure() string {
	if why := b.Lowered(); why != "" {
		return "remove some, or raise a limit: " + why
	}
	return "remove some"
}
