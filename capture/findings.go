package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gridmesh/gridmesh/capture/firewall"
)

// ownFindings are what a capture itself found, each until it is so no longer. Inspector
// reads them beside the owner of the capture.
type ownFindings struct {
	mu   sync.Mutex
	list []Finding
}

// set takes the one finding of a kind; an empty text is none.
func (f *ownFindings) set(kind FindingKind, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Finding // who has read the last one keeps it
	for _, known := range f.list {
		if known.Kind != kind {
			list = append(list, known)
		}
	}
	if text != "" {
		list = append(list, Finding{kind, text})
	}
	f.list = list
}

func (f *ownFindings) all() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

// Inspector looks for what cannot live beside the capture, and has what this capture cannot
// do on this node besides, as far as it tried, and who else listens on Envoy's ports. Where others change chains or links all the
// time it returns what was found of it beside dump.ErrTorn. It may be called beside the
// capture's owner, by one goroutine.
func (c *Capture) Inspector() func() ([]Finding, error) {
	mark, redirected, ports := c.cfg.Mark, c.cfg.KeepBridgeNetfilter, c.cfg.Ports
	ofNode := inspector(func() firewall.Packet {
		return firewall.Packet{Mark: mark, Sources: *c.pods.Load(), Redirected: redirected}
	})
	return func() ([]Finding, error) {
		list, err := ofNode()
		held, _ := Listening(ports) // of a kernel that does not tell nothing is known
		return slices.Concat(list, c.own.all(), trackingFull(trackingDir), held.findings(redirected)), err
	}
}

// foundKernelTable takes why the table of the kernel path, which is off, cannot be removed.
func (c *Capture) foundKernelTable(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("--datapath envoy has no kernel path, and a table of one serves on: %v; remove what holds it, or see what is in it: nft list table inet gridmesh_kernel", err)
	}
	c.own.set(KernelTable, text)
}

// foundLooks takes why something beside the rules cannot be looked at, which are in force all the same.
func (c *Capture) foundLooks(errs ...error) {
	text := ""
	if err := errors.Join(errs...); err != nil {
		text = fmt.Sprintf("all that is known is served, and something beside that cannot be looked at: %s; it is tried again, and what it says comes late", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	c.own.set(KernelLook, text)
}

// foundConntrack takes why conntrack cannot be asked.
func (c *Capture) foundConntrack(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("conntrack cannot be asked for flows (%v): UDP flows to endpoints that are gone go on there until they are silent for two minutes; load the module that lacks: modprobe nf_conntrack_netlink", err)
	}
	c.own.set(Conntrack, text)
}
