package answer

import (
	"iter"
	"net/netip"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// service is one Service's names. There are thousands: what is empty is nil.
type service struct {
	*topology.ServiceView
	// hosts are the names below the Service's: hostnames of pods, and ordinals.
	// Those of a Service with a ClusterIP and without units are looked for when
	// somebody asks.
	hosts map[string]pods
	// elsewhere are ordinals that other units have, and this one lacks.
	elsewhere map[string]bool
}

// pods of one name: most have one.
type pods struct {
	first *topology.Pod
	more  *[]*topology.Pod
}

func (p pods) all() []*topology.Pod {
	switch {
	case p.first == nil:
		return nil
	case p.more == nil:
		return []*topology.Pod{p.first}
	}
	return *p.more
}

func (p pods) with(pod *topology.Pod) pods {
	switch {
	case p.first == nil:
		p.first = pod
	case p.more == nil:
		p.more = &[]*topology.Pod{p.first, pod}
	default:
		*p.more = append(*p.more, pod)
	}
	return p
}

// service makes the names of one Service; nil for one that is not answered.
func (c *Config) service(sv *topology.ServiceView) *service {
	s := sv.Service
	switch grid := s.GridKey != ""; {
	case s.Foreign, s.Headless && !grid: // the watches leave out its endpoints
		return nil
	case !s.Headless && !grid && !c.Services && sv.Keys.Mode == topology.NoKeys && sv.UnitKey == "": // the next plugin answers
		return nil
	}
	svc := &service{ServiceView: sv}
	svc.addHosts(c)
	return svc
}

// addHosts names the pods below the Service. A pod that has the name of an
// ordinal keeps it.
func (svc *service) addHosts(c *Config) {
	if svc.Service.Headless || c.Services {
		for i := range svc.Pods {
			if p := &svc.Pods[i]; !c.hides(p) {
				svc.addHost(hostName(p.Endpoint), p)
			}
		}
	}
	ordinals := map[string]bool{}
	for i := range svc.Pods {
		p := &svc.Pods[i]
		if !p.Own || p.Ordinal == "" || c.hides(p) {
			continue
		}
		if _, taken := svc.hosts[p.Ordinal]; !taken || ordinals[p.Ordinal] {
			ordinals[p.Ordinal] = true
			svc.addHost(p.Ordinal, p)
		}
	}
	for i := range svc.Waiting {
		p := &svc.Waiting[i]
		if c.hides(p) {
			continue
		}
		if _, taken := svc.hosts[p.Ordinal]; !taken || ordinals[p.Ordinal] {
			ordinals[p.Ordinal] = true
			svc.addHost(p.Ordinal, p)
		}
	}
	for i := range svc.Pods {
		if p := &svc.Pods[i]; !p.Own && p.Ordinal != "" {
			svc.addElsewhere(p.Ordinal)
		}
	}
}

// hides reports whether a pod has no name, for its Service's does not stand for it.
func (c *Config) hides(p *topology.Pod) bool { return c.Strict && p.Reason != "" }

func (svc *service) addHost(name string, p *topology.Pod) {
	if svc.hosts == nil {
		svc.hosts = map[string]pods{}
	}
	svc.hosts[name] = svc.hosts[name].with(p)
}

func (svc *service) addElsewhere(ordinal string) {
	if _, here := svc.hosts[ordinal]; here {
		return
	}
	if svc.elsewhere == nil {
		svc.elsewhere = map[string]bool{}
	}
	svc.elsewhere[ordinal] = true
}

// listed are the pods of a name below the Service's; false where they have to be
// looked for, by unlisted.
func (svc *service) listed(name string) ([]*topology.Pod, bool) {
	found, ok := svc.hosts[name]
	return found.all(), ok || svc.Service.Headless || len(svc.Pods) > 0
}

// unlisted yields the pods of a name that are not listed.
func (svc *service) unlisted(name string) iter.Seq[*topology.Pod] {
	ip, _ := addressOf(name)
	return func(yield func(*topology.Pod) bool) {
		for p := range svc.Named() {
			if p.Hostname != "" && strings.EqualFold(p.Hostname, name) || p.Hostname == "" && p.Addr == ip && hostName(p.Endpoint) == name {
				if one := p; !yield(&one) { // p itself would be made anew for each endpoint
					return
				}
			}
		}
	}
}

// has reports whether a pod has a name below the Service's.
func (svc *service) has(name string) bool {
	if found, listed := svc.listed(name); listed {
		return len(found) > 0
	}
	for range svc.unlisted(name) {
		return true
	}
	return false
}

// hostName is the name of an endpoint below its Service's: its hostname, or
// its address with dashes.
func hostName(ep *topology.Endpoint) string {
	switch {
	case ep.Hostname != "":
		return strings.ToLower(ep.Hostname)
	case ep.Addr.Is4():
		return strings.ReplaceAll(ep.Addr.String(), ".", "-")
	}
	name := strings.ReplaceAll(ep.Addr.String(), ":", "-")
	if strings.HasSuffix(name, "-") {
		name += "0" // a label does not end with a dash
	}
	return name
}

// addressOf is the address that hostName made a name of.
func addressOf(name string) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(strings.ReplaceAll(name, "-", ".")); err == nil {
		return ip, nil
	}
	return netip.ParseAddr(strings.ReplaceAll(name, "-", ":"))
}
