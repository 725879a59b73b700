package answer

import (
	"net/netip"

	"github.com/gridmesh/gridmesh/internal/table"
)

// ptr is one PTR record of an address: a Service, or a host below it.
type ptr struct {
	host, service string
	next          *ptr // another name of the same address
}

// PTR returns the names of an address, relative to "svc" of the zone.
func (x *Index) PTR(ip netip.Addr) (names []string) {
	p, _ := x.ptr.Get(ip.Unmap())
	for ; p != nil; p = p.next {
		name := p.service
		if p.host != "" {
			name = p.host + "." + p.service
		}
		names = append(names, name)
	}
	return names
}

// setPTR adds or removes the records of a Service's addresses.
func (x *Index) setPTR(ptrs *table.Edit[netip.Addr, *ptr], name string, svc *service, there bool) {
	if !x.cfg.Services {
		return
	}
	for _, ip := range svc.ClusterIPs {
		setRecord(ptrs, ip, ptr{service: name}, there)
	}
	for _, m := range svc.Members {
		setRecord(ptrs, m.Addr, ptr{host: hostName(m.Endpoint), service: name}, there)
	}
}

func setRecord(ptrs *table.Edit[netip.Addr, *ptr], ip netip.Addr, p ptr, there bool) {
	var list *ptr
	old, _ := ptrs.Get(ip)
	for o := old; o != nil; o = o.next {
		if o.host != p.host || o.service != p.service {
			list = &ptr{o.host, o.service, list}
		}
	}
	if there {
		list = &ptr{p.host, p.service, list}
	}
	if list == nil {
		ptrs.Delete(ip)
		return
	}
	ptrs.Set(ip, list)
}
