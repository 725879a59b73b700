package answer

import (
	"net/netip"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// service is one Service's names. There are thousands: what is empty is nil.
type service struct {
	*topology.ServiceView
	// hosts are the names below the Service's: hostnames of pods, and ordinals.
	hosts map[string]addresses
	// elsewhere are ordinals that other units have, and this one lacks.
	elsewhere map[string]bool
}

// addresses of one name: most have one.
type addresses struct {
	first netip.Addr
	more  *[]netip.Addr
}

func (a addresses) all() []netip.Addr {
	if a.more == nil {
		return []netip.Addr{a.first}
	}
	return *a.more
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
	svc.addHosts(c.Strict)
	return svc
}

// addHosts names the pods below the Service. A pod that has the name of an
// ordinal keeps it.
func (svc *service) addHosts(strict bool) {
	if svc.Service.Headless {
		for i := range svc.Pods {
			if p := &svc.Pods[i]; p.Reason == "" || !strict {
				svc.addHost(hostName(p.Endpoint), p.Addr)
			}
		}
	}
	ordinals := map[string]bool{}
	for i := range svc.Pods {
		p := &svc.Pods[i]
		if !p.Own || p.Ordinal == "" {
			continue
		}
		if _, taken := svc.hosts[p.Ordinal]; !taken || ordinals[p.Ordinal] {
			ordinals[p.Ordinal] = true
			svc.addHost(p.Ordinal, p.Addr)
		}
	}
	for i := range svc.Pods {
		if p := &svc.Pods[i]; !p.Own && p.Ordinal != "" {
			svc.addElsewhere(p.Ordinal)
		}
	}
}

func (svc *service) addHost(name string, addr netip.Addr) {
	if svc.hosts == nil {
		svc.hosts = map[string]addresses{}
	}
	a, found := svc.hosts[name]
	switch {
	case !found:
		a.first = addr
	case a.more == nil:
		a.more = &[]netip.Addr{a.first, addr}
	default:
		*a.more = append(*a.more, addr)
	}
	svc.hosts[name] = a
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

// hostName is the name of an endpoint below its Service's: its hostname, or
// its address with dashes.
func hostName(ep *topology.Endpoint) string {
	switch {
	case ep.Hostname != "":
		return strings.ToLower(ep.Hostname)
	case ep.Addr.Is4():
		return strings.ReplaceAll(ep.Addr.String(), ".", "-")
	}
	return strings.ReplaceAll(ep.Addr.String(), ":", "-")
}
