package answer

import (
	"net/netip"
	"slices"
	"strings"
)

// Hosts is the ordinals of this unit as a hosts file (hosts(5)): a line "IP
// name" each, sorted, without comments; the form of SuperEdge's /data/edge/hosts.
// zone is the cluster's, as "cluster.local".
func (x *Index) Hosts(zone string) []byte {
	var lines []string
	for key, entry := range x.snapshot.Services.All() {
		svc, ok := x.services.Get(serviceName(key))
		if !ok {
			continue
		}
		keys := entry.Keys().List
		for ep := range ready(entry) {
			name := x.ordinal(keys, ep)
			if name == "" || !x.sharesUnit(keys[0], ep.Node) || !slices.Contains(svc.addressesOf(name), ep.Addr) {
				continue
			}
			lines = append(lines, ep.Addr.String()+" "+name+"."+serviceName(key)+".svc."+zone+"\n")
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), ""))
}

func (svc *service) addressesOf(name string) []netip.Addr {
	a, ok := svc.hosts[name]
	if !ok {
		return nil
	}
	return a.all()
}
