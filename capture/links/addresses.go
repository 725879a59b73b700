package links

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

const ifaddrmsgLen = 8

// Addresses lists the addresses of a link of this node, by its index; of all
// links where it is 0. A link that is gone has none. Where they come and go all
// the time it has what was told beside dump.ErrTorn.
func Addresses(index int) (all []netip.Addr, err error) {
	conn, err := Dial()
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	defer conn.Close()
	return addresses(index, func(m nl.Message) ([]nl.Message, error) { return dump.Ask(conn, m) })
}

func addresses(index int, ask func(nl.Message) ([]nl.Message, error)) (all []netip.Addr, err error) {
	var torn error
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		head := make([]byte, ifaddrmsgLen)
		head[0] = family
		binary.NativeEndian.PutUint32(head[4:], uint32(index))
		msgs, err := ask(nl.Message{Header: nl.Header{Type: unix.RTM_GETADDR, Flags: nl.Request | nl.Dump}, Data: head})
		switch {
		case errors.Is(err, dump.ErrTorn):
			torn = fmt.Errorf("list addresses: %w", err)
		case errors.Is(err, unix.ENODEV):
		case err != nil:
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		for _, m := range msgs {
			// A kernel that is old tells of all links, and one without IPv6 of IPv4.
			if len(m.Data) < ifaddrmsgLen || m.Data[0] != family || index != 0 && int(binary.NativeEndian.Uint32(m.Data[4:])) != index {
				continue
			}
			ip, err := parseAddress(m.Data[ifaddrmsgLen:])
			if err != nil {
				return nil, fmt.Errorf("list addresses: %w", err)
			}
			if ip.IsValid() {
				all = append(all, ip)
			}
		}
	}
	return all, torn
}

// parseAddress is the node's own of the two that a link from one point to another has.
func parseAddress(b []byte) (ip netip.Addr, err error) {
	attrs, err := nl.NewAttributeDecoder(b)
	if err != nil {
		return ip, err
	}
	own := false
	for attrs.Next() {
		switch attrs.Type() {
		case unix.IFA_LOCAL:
			ip, own = netip.AddrFromSlice(attrs.Bytes())
		case unix.IFA_ADDRESS:
			if !own {
				ip, _ = netip.AddrFromSlice(attrs.Bytes())
			}
		}
	}
	return ip.Unmap(), attrs.Err()
}

// Dial opens rtnetlink, where the kernel tells of what was asked for alone; one
// before 4.20 tells of more.
func Dial() (*nl.Conn, error) {
	conn, err := nl.Dial(unix.NETLINK_ROUTE, nil)
	if err == nil {
		_ = conn.SetOption(nl.GetStrictCheck, true)
	}
	return conn, err
}
