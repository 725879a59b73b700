package shield

import "time"

// Budget is how fast nodes are given up ahead of Kubernetes, whose own queue may be busy
// with those that are shielded: as fast as it does it itself, one in ten seconds of each
// unit, and never more than half of one.
type Budget struct {
	Every time.Duration // 0 is 10 s, as --node-eviction-rate 0.1
	spent map[string]time.Time
}

const every = 10 * time.Second

// Take reports whether one more node of a unit may be given up now; of its nodes some are
// already.
func (b *Budget) Take(now time.Time, unit string, nodes, given int) bool {
	wait := b.Every
	if wait == 0 {
		wait = every
	}
	if last, ok := b.spent[unit]; ok && now.Sub(last) < wait || 2*(given+1) > nodes && nodes > 2 {
		return false
	}
	if b.spent == nil {
		b.spent = map[string]time.Time{}
	}
	for u, at := range b.spent {
		if now.Sub(at) >= wait {
			delete(b.spent, u)
		}
	}
	b.spent[unit] = now
	return true
}

// few nodes of a cluster may be unseen, however small it is.
const few = 3

// MaySuspect reports whether one more node that the cloud hears may get nothing new, of a unit
// of which some do already, in a cluster of which some do. Fewer than half of a unit, of two
// one, and a tenth of a cluster: who is not seen may run pods all the same, and where that is
// said of many it is more often a fault of who says it, or a lie.
func MaySuspect(inUnit, unit, inCluster, cluster int) bool {
	return (inUnit == 0 || 2*(inUnit+1) < unit) && inCluster < max(few, cluster/10)
}

// MayPart reports whether pods that could run elsewhere are to be taken from units without uplink,
// with some nodes of a cluster lost. Where more than 55 in a hundred are, as Kubernetes has it
// (--unhealthy-zone-threshold), it is rather the cloud that is cut off.
func MayPart(lost, cluster int) bool { return 100*lost <= 55*cluster }
