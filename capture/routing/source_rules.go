package routing

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Priorities of the rules where sources are validated by marks: what is for a
// Service; what is passed over the rule for all that is marked; that rule; and
// where it goes on.
const ownPriority, passPriority, laterPriority, passedPriority = rulePriority - 1, rulePriority, rulePriority + 1, rulePriority + 2

// rules are the rules that lead marked packets to this node: one.
//
// A node may validate the sources of packets with their marks (src_valid_mark;
// wg-quick sets it). Then the kernel looks for the way back to the client of a
// captured packet, and to the endpoint that answers a kept source, as if this
// node were to send there in the name of the Service, or of the pod, with the
// capture's mark. That one rule says that this is local, and the packet a
// martian. This node sends no such packet, so the question is left to everybody
// else's rules. What it does send, to Services, is not in question.
func (r Routing) rules(f netFamily) []*netlink.Rule {
	all, services := markRule(r.Config, f), r.Services
	if f.family != unix.AF_INET || len(services) > mostRanges {
		return []*netlink.Rule{all}
	}
	if validates, _ := r.validatesMarks(); !validates { // unvalidated tells what could not be read
		return []*netlink.Rule{all}
	}
	passed := netlink.NewRule()
	passed.Family, passed.Priority, passed.Protocol, passed.Type = f.family, passedPriority, routeProtocol, nl.FR_ACT_NOP
	all.Priority = laterPriority
	list := []*netlink.Rule{passed, all}
	for _, p := range services {
		if n := ipv4Net(p); n != nil {
			own := markRule(r.Config, f)
			own.Priority, own.IifName, own.Dst = ownPriority, "lo", n
			list = append(list, own)
		}
	}
	for _, p := range slices.Concat(services, r.Config.PodCIDRs) {
		if n := ipv4Net(p); n != nil {
			pass := markRule(r.Config, f)
			pass.Table, pass.Priority, pass.Goto, pass.IifName, pass.Src = 0, passPriority, passedPriority, "lo", n
			list = append(list, pass)
		}
	}
	return list
}

// mostRanges bounds rules that the kernel goes through for each packet.
const mostRanges = 64

// unvalidated is an error where the sources of this node's pods cannot be
// validated: where nobody says which ranges Services have, each is one. It is one, too,
// where nobody can tell whether they are to be.
func (r Routing) unvalidated() error {
	validates, err := r.validatesMarks()
	if n := len(r.Services); err == nil && validates && n > mostRanges {
		err = fmt.Errorf("a sysctl net.ipv4.conf.*.src_valid_mark is set (wg-quick sets it), and there are %d ranges of Services: the kernel drops what pods send to them over IPv4; start with --service-cidr, or set it to 0 (docs/limits.md)", n)
	}
	return err
}

// ipv4Net is nil for a range of IPv6.
func ipv4Net(p netip.Prefix) *net.IPNet {
	if !p.Addr().Is4() {
		return nil
	}
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// validatesMarks reports whether any interface does, or one that is to come. What is
// set for all is seen at once, as wg-quick does; what is set for one when all are read.
// What cannot be read counts as set: the rules for that serve a node where it is not, too.
func (r Routing) validatesMarks() (bool, error) {
	if r.Validates {
		return true, nil
	}
	for _, name := range []string{"all", "default"} {
		value, err := os.ReadFile(filepath.Join(r.ProcSys, "net/ipv4/conf", name, "src_valid_mark"))
		switch {
		case errors.Is(err, os.ErrNotExist): // the kernel has no such sysctl
		case err != nil:
			return true, fmt.Errorf("read sysctl net.ipv4.conf.%s.src_valid_mark: %w", name, err)
		case strings.TrimSpace(string(value)) != "0": // any number is on
			return true, nil
		}
	}
	return false, nil
}
