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
		for i := range svc.Pods {
			p := &svc.Pods[i]
			if !p.Own || p.Ordinal == "" || !slices.Contains(svc.hosts[p.Ordinal].all(), p) {
				continue
			}
			lines = append(lines, p.Addr.String()+" "+p.Ordinal+"."+name+".svc."+zone+"\n")
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), ""))
}
