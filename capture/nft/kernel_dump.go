package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// A dump is told in pieces as large as the buffer that is offered for them, of
// which the kernel uses 32 KiB; for each piece of a set it goes through all of
// the set that it told before. The pages that libraries offer make that four
// times the work.
const (
	dumpPiece    = 64 << 10
	dumpPatience = 10 * time.Second // for one piece
)

// Dump asks the kernel's netfilter for a list, and takes each item as it comes,
// also of one that is torn.
func Dump(request uint16, family byte, attrs []byte, take func(item []byte) error) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	wait := unix.NsecToTimeval(dumpPatience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	msg := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+headerLen+len(attrs))
	msg = append(append(msg, Header(nftables.TableFamily(family))...), attrs...)
	binary.NativeEndian.PutUint32(msg[0:], uint32(len(msg)))
	binary.NativeEndian.PutUint16(msg[4:], request)
	binary.NativeEndian.PutUint16(msg[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	piece := make([]byte, dumpPiece)
	for moved := false; ; {
		n, _, err := unix.Recvfrom(fd, piece, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		done, disturbed, err := messages(piece[:n], take)
		moved = moved || disturbed
		if done && moved && err == nil {
			return dump.ErrTorn
		}
		if done || err != nil {
			return err
		}
	}
}

// messages takes the items of one piece.
func messages(b []byte, take func(item []byte) error) (done, moved bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		length := int(binary.NativeEndian.Uint32(b))
		if length < unix.NLMSG_HDRLEN || length > len(b) {
			return false, moved, errors.New("netlink: a message that is cut off")
		}
		kind, flags, body := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:]), b[unix.NLMSG_HDRLEN:length]
		moved = moved || flags&unix.NLM_F_DUMP_INTR != 0
		switch {
		case kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR:
			if len(body) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(body)); code < 0 {
					return false, moved, unix.Errno(-code)
				}
			}
			return true, moved, nil
		case len(body) >= headerLen:
			if err := take(body[headerLen:]); err != nil {
				return false, moved, err
			}
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return false, moved, nil
}

// EachAttribute walks attributes, and leaves out what follows one that is cut off.
func EachAttribute(b []byte, do func(kind uint16, value []byte)) {
	for len(b) >= unix.NLA_HDRLEN {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.NLA_HDRLEN || length > len(b) {
			return
		}
		do(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.NLA_HDRLEN:length])
		b = b[min((length+3)&^3, len(b)):]
	}
}

// Attribute makes one.
func Attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.NLA_HDRLEN+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// ReadMap reads a set of a table back, or a map with what it leads to. An element
// without a key is a catch-all. While others write all the time it is read as it is.
func ReadMap(table, name string) (list []nftables.SetElement, err error) {
	attrs := append(Attribute(unix.NFTA_SET_ELEM_LIST_TABLE, []byte(table+"\x00")), Attribute(unix.NFTA_SET_ELEM_LIST_SET, []byte(name+"\x00"))...)
	list, err = dump.Again(func() (list []nftables.SetElement, err error) {
		err = Dump(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETSETELEM, unix.NFPROTO_INET, attrs, func(item []byte) error {
			list = append(list, parseElements(item)...)
			return nil
		})
		return list, err
	})
	if errors.Is(err, dump.ErrTorn) {
		return list, nil
	}
	return list, err
}

// parseElements are the elements of one message.
func parseElements(item []byte) (list []nftables.SetElement) {
	EachAttribute(item, func(kind uint16, value []byte) {
		if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return
		}
		EachAttribute(value, func(_ uint16, value []byte) { list = append(list, parseMapped(value)) })
	})
	return list
}

func parseMapped(b []byte) (e nftables.SetElement) {
	const keyEnd = 10 // NFTA_SET_ELEM_KEY_END of linux/netfilter/nf_tables.h
	data := func(b []byte) (value []byte) {
		EachAttribute(b, func(kind uint16, v []byte) {
			if kind == unix.NFTA_DATA_VALUE {
				value = append([]byte(nil), v...)
			}
		})
		return value
	}
	EachAttribute(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			e.Key = data(value)
		case unix.NFTA_SET_ELEM_FLAGS:
			e.IntervalEnd = bigEndian(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case keyEnd:
			e.KeyEnd = data(value)
		case unix.NFTA_SET_ELEM_DATA:
			e.Val, e.VerdictData = data(value), parseVerdict(value)
		}
	})
	return e
}

func parseVerdict(b []byte) (v *expr.Verdict) {
	EachAttribute(b, func(kind uint16, value []byte) {
		if kind != unix.NFTA_DATA_VERDICT {
			return
		}
		v = &expr.Verdict{}
		EachAttribute(value, func(kind uint16, value []byte) {
			switch {
			case kind == unix.NFTA_VERDICT_CODE && len(value) == 4:
				v.Kind = expr.VerdictKind(int32(binary.BigEndian.Uint32(value)))
			case kind == unix.NFTA_VERDICT_CHAIN:
				v.Chain = unix.ByteSliceToString(value)
			}
		})
	})
	return v
}

// chain is the chain that something belongs to; "" for what is of none.
func (e *entry) chain(kind string) string {
	switch kind {
	case "chains":
		return e.string(unix.NFTA_CHAIN_NAME)
	case "rules":
		return e.string(unix.NFTA_RULE_CHAIN)
	}
	return ""
}
