package answer

import (
	"net/netip"
	"strings"

	"github.com/gridmesh/gridmesh/internal/table"
)

// PTR returns the names of an address, relative to "svc" of the zone, sorted by
// Service, and whether there are more, which no message of DNS has room for.
func (x *Index) PTR(ip netip.Addr) (names []string, truncated bool) {
	least, service := 0, "" // of the bytes that they take; the one before
	p, _ := x.ptr.Get(ip.Unmap())
	for r := range p.all() {
		least += owned + 2 // what names have in common may be a pointer (RFC 1035, 4.1.4)
		name := r.service
		if r.host != "" {
			name = r.host + "." + name
			least += 1 + len(r.host)
		}
		if r.service != service {
			service = r.service
			least += 1 + strings.IndexByte(service, '.')
		}
		if least > largest {
			return names, true
		}
		names = append(names, name)
	}
	return names, false
}

// setPTR adds or removes the records of a Service's addresses.
func (x *Index) setPTR(ptrs *table.Edit[netip.Addr, *ptr], name string, svc *service, there bool) {
	if !x.cfg.Services {
		return
	}
	for _, ip := range svc.ClusterIPs {
		setRecord(ptrs, ip, record{service: name}, there)
	}
	for _, m := range svc.Members {
		setRecord(ptrs, m.Addr, record{service: name, host: hostName(m.Endpoint)}, there)
	}
}

func setRecord(ptrs *table.Edit[netip.Addr, *ptr], ip netip.Addr, r record, there bool) {
	list, _ := ptrs.Get(ip)
	if there {
		list = list.with(r)
	} else {
		list = list.without(r)
	}
	if list == nil {
		ptrs.Delete(ip)
		return
	}
	ptrs.Set(ip, list)
}
