package answer

import (
	"slices"
	"strings"
)

// Hosts is the ordinals of this unit as a hosts file (hosts(5)): a line "IP
// name" each, sorted, without comments; the form of SuperEdge's /data/edge/hosts.
// zone is the cluster's, as "cluster.local".
func (x *Index) Hosts(zone string) []byte {
	var lines []string
	for name, svc := range x.services.All() {
		for host, pods := range svc.hosts {
			for _, p := range pods.all() {
				if p.Own && p.Ordinal == host {
					lines = append(lines, p.Addr.String()+" "+host+"."+name+".svc."+zone+"\n")
				}
			}
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), ""))
}
