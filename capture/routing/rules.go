package routing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	nl "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/plan"
)

// Of linux/fib_rules.h, as far as rules of ours have them.
const (
	fraDst, fraSrc, fraIifName, fraGoto, fraPriority  = 1, 2, 3, 4, 6
	fraFwMark, fraTable, fraFwMask, fraProtocol       = 10, 15, 16, 21
	fraSuppressIfGroup, fraSuppressPrefix             = 13, 14
	actToTable, actGoto                               = 1, 2
	ruleInvert                                        = 0x2
	ruleHead, dstLenAt, srcLenAt, tosAt, actAt, flags = 12, 1, 2, 3, 7, 8
)

// rule is a rule of routing with all that the kernel says of it. The library
// leaves out what it does not know: a rule that is ours but for that would pass
// for ours, and the one that it removes could be another.
type rule struct {
	head  []byte // struct fib_rule_hdr
	attrs map[uint16][]byte
}

// rulesOf lists the rules of a family.
func rulesOf(family int) (list []rule, err error) {
	msgs, err := ask(unix.RTM_GETRULE, nl.Dump, rule{head: append([]byte{byte(family)}, make([]byte, ruleHead-1)...)})
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	for _, m := range msgs {
		if len(m.Data) < ruleHead || m.Data[0] != byte(family) {
			continue
		}
		r := rule{head: m.Data[:ruleHead], attrs: map[uint16][]byte{}}
		attrs, err := nl.NewAttributeDecoder(m.Data[ruleHead:])
		if err != nil {
			return nil, fmt.Errorf("list rules: %w", err)
		}
		for attrs.Next() {
			r.attrs[attrs.Type()] = attrs.Bytes()
		}
		if err := attrs.Err(); err != nil {
			return nil, fmt.Errorf("list rules: %w", err)
		}
		list = append(list, r)
	}
	return list, nil
}

func ask(msg uint16, how nl.HeaderFlags, r rule) ([]nl.Message, error) {
	conn, err := nl.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var attrs []nl.Attribute
	for _, of := range slices.Sorted(maps.Keys(r.attrs)) {
		attrs = append(attrs, nl.Attribute{Type: of, Data: r.attrs[of]})
	}
	data, err := nl.MarshalAttributes(attrs)
	if err != nil {
		return nil, err
	}
	return dump.Ask(conn, nl.Message{Header: nl.Header{Type: nl.HeaderType(msg), Flags: nl.Request | how}, Data: append(slices.Clone(r.head), data...)})
}

// remove removes this very rule: the kernel takes the first that has all that is named.
func (r rule) remove() error {
	named := rule{head: slices.Clone(r.head), attrs: maps.Clone(r.attrs)}
	binary.NativeEndian.PutUint32(named.head[flags:], binary.NativeEndian.Uint32(named.head[flags:])&ruleInvert)
	maps.DeleteFunc(named.attrs, neutral)
	_, err := ask(unix.RTM_DELRULE, nl.Acknowledge, named)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove a rule: %w", err)
	}
	return nil
}

// table is where a rule leads, 0 for none.
func (r rule) table() int {
	if b := r.attrs[fraTable]; len(b) == 4 {
		return int(binary.NativeEndian.Uint32(b))
	}
	return 0
}

// neutral reports whether an attribute says nothing: the kernel tells of it where
// nobody asked for it.
func neutral(of uint16, value []byte) bool {
	if of == fraSuppressIfGroup || of == fraSuppressPrefix {
		return slices.Equal(value, []byte{0xff, 0xff, 0xff, 0xff})
	}
	return len(value) <= 4 && !slices.ContainsFunc(value, func(b byte) bool { return b != 0 })
}

// signature is the same for rules that match the same and lead to the same,
// but for the attributes given.
func (r rule) signature(but ...uint16) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%x", []byte{r.head[dstLenAt], r.head[srcLenAt], r.head[tosAt], r.head[actAt], byte(binary.NativeEndian.Uint32(r.head[flags:]) & ruleInvert)})
	for _, of := range slices.Sorted(maps.Keys(r.attrs)) {
		if !neutral(of, r.attrs[of]) && !slices.Contains(but, of) {
			fmt.Fprintf(&b, " %d=%x", of, r.attrs[of])
		}
	}
	return b.String()
}

// asTold is a rule as the kernel tells of it once it is there.
func asTold(w *netlink.Rule) rule {
	r := rule{head: make([]byte, ruleHead), attrs: map[uint16][]byte{}}
	r.head[0], r.head[actAt] = byte(w.Family), w.Type
	if w.Type == 0 {
		r.head[actAt] = actToTable
	}
	number := func(of uint16, n uint32) { r.attrs[of] = binary.NativeEndian.AppendUint32(nil, n) }
	if w.Goto >= 0 {
		r.head[actAt] = actGoto
		number(fraGoto, uint32(w.Goto))
	}
	if w.Dst != nil {
		bits, _ := w.Dst.Mask.Size()
		r.head[dstLenAt], r.attrs[fraDst] = byte(bits), w.Dst.IP
	}
	if w.Src != nil {
		bits, _ := w.Src.Mask.Size()
		r.head[srcLenAt], r.attrs[fraSrc] = byte(bits), w.Src.IP
	}
	if w.IifName != "" {
		r.attrs[fraIifName] = []byte(w.IifName + "\x00")
	}
	if w.Mask != nil {
		number(fraFwMask, *w.Mask)
	}
	number(fraPriority, uint32(w.Priority))
	number(fraFwMark, w.Mark)
	number(fraTable, uint32(max(w.Table, 0)))
	r.attrs[fraProtocol] = []byte{w.Protocol}
	return r
}

// ourRules lists our rules of a family: by their protocol, or by all that an
// agent wrote that gave them none.
func ourRules(cfg plan.Config, f netFamily) ([]rule, error) {
	list, err := rulesOf(f.family)
	plain := asTold(markRule(cfg, f)).signature(fraPriority, fraProtocol)
	return slices.DeleteFunc(list, func(r rule) bool {
		return !slices.Equal(r.attrs[fraProtocol], []byte{routeProtocol}) && r.signature(fraPriority, fraProtocol) != plain
	}), err
}

// differ compares our rules with those that are wanted, each of which is there once.
func differ(list []rule, want []*netlink.Rule) (missing bool, extra []rule) {
	extra = slices.Clone(list)
	for _, w := range want {
		wanted := asTold(w).signature()
		i := slices.IndexFunc(extra, func(r rule) bool { return r.signature() == wanted })
		if i < 0 {
			missing = true
			continue
		}
		extra = slices.Delete(extra, i, i+1)
	}
	return missing, extra
}
