package links

import (
	"encoding/binary"
	"errors"
	"fmt"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// Lo is the index of lo in every network: LOOPBACK_IFINDEX of linux/netdevice.h.
const Lo = 1

// Link is what the capture has to know of a network interface.
type Link struct {
	Index     int
	Name      string
	Kind      string // "bridge", "veth"; empty for a device
	MAC       []byte
	Validates bool // net.ipv4.conf.NAME.src_valid_mark
}

// Of linux/rtnetlink.h and linux/ip.h, which are the kernel's word to user space:
// a dump without what is counted, and the place of src_valid_mark among the values of an
// interface.
const (
	skipStats       = 1 << 3
	placeOfSrcVMark = 24 - 1
)

const ifinfomsgLen = 16

// Read lists the network interfaces of a kind, or all of them. All are dear
// on a node with many pods, and each file of their sysctls is dearer
// (BenchmarkLookAtManyPods). Where they come and go all the time it has what was
// told beside dump.ErrTorn.
func Read(kind string) (list []Link, err error) {
	conn, err := nl.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	defer conn.Close()
	wanted := nl.NewAttributeEncoder()
	wanted.Uint32(unix.IFLA_EXT_MASK, skipStats)
	if kind != "" {
		wanted.Nested(unix.IFLA_LINKINFO, func(info *nl.AttributeEncoder) error {
			info.String(unix.IFLA_INFO_KIND, kind)
			return nil
		})
	}
	attrs, err := wanted.Encode()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	msgs, torn := dump.Ask(conn, nl.Message{
		Header: nl.Header{Type: unix.RTM_GETLINK, Flags: nl.Request | nl.Dump},
		Data:   append(make([]byte, ifinfomsgLen), attrs...),
	})
	if torn != nil && !errors.Is(torn, dump.ErrTorn) {
		return nil, fmt.Errorf("list links: %w", torn)
	}
	for _, m := range msgs {
		l, err := parseLink(m)
		if err != nil {
			return nil, fmt.Errorf("list links: %w", err)
		}
		if kind == "" || l.Kind == kind { // an old kernel tells of all
			list = append(list, l)
		}
	}
	if torn != nil {
		return list, fmt.Errorf("list links: %w", torn)
	}
	return list, nil
}

func parseLink(m nl.Message) (l Link, err error) {
	if len(m.Data) < ifinfomsgLen {
		return l, fmt.Errorf("a message of %d bytes", len(m.Data))
	}
	l.Index = int(binary.NativeEndian.Uint32(m.Data[4:8]))
	attrs, err := nl.NewAttributeDecoder(m.Data[ifinfomsgLen:])
	if err != nil {
		return l, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.IFLA_IFNAME:
			l.Name = attrs.String()
		case unix.IFLA_ADDRESS:
			l.MAC = attrs.Bytes()
		case unix.IFLA_LINKINFO:
			attrs.Nested(func(info *nl.AttributeDecoder) error {
				for info.Next() {
					if info.Type() == unix.IFLA_INFO_KIND {
						l.Kind = info.String()
					}
				}
				return info.Err()
			})
		case unix.IFLA_AF_SPEC:
			attrs.Nested(func(families *nl.AttributeDecoder) error {
				for families.Next() {
					if families.Type() == unix.AF_INET {
						families.Nested(l.inet)
					}
				}
				return families.Err()
			})
		}
	}
	return l, attrs.Err()
}

// inet reads the values of IPv4.
func (l *Link) inet(of *nl.AttributeDecoder) error {
	for of.Next() {
		if values := of.Bytes(); of.Type() == unix.IFLA_INET_CONF && len(values) >= 4*(placeOfSrcVMark+1) {
			l.Validates = binary.NativeEndian.Uint32(values[4*placeOfSrcVMark:]) != 0
		}
	}
	return of.Err()
}
