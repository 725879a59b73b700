package answer

import (
	"net/netip"
	"strings"

	"github.com/gridmesh/gridmesh/internal/table"
)

// ptr is one PTR record of an address: a Service, or a host below it.
type ptr struct {
	host, service string
	next          *ptr // another name of the same address
}

// PTR returns the names of an address, relative to "svc" of the zone, and whether
// there are more, which no message of DNS has room for.
func (x *Index) PTR(ip netip.Addr) (names []string, truncated bool) {
	least := 0 // that they take, in bytes
	p, _ := x.ptr.Get(ip.Unmap())
	for ; p != nil; p = p.next {
		name := p.service
		// What they have in common may be a pointer (RFC 1035, 4.1.4), but each is of
		// another Service.
		least += owned + 2 + 1 + strings.IndexByte(name, '.')
		if p.host != "" {
			name = p.host + "." + name
			least += 1 + len(p.host)
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
