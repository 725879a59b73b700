package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

const (
	// requests is how often each place asks.
	requests = 25
	// requestTimeout is long, for a slow machine is no failure; the table
	// shows the slowest request.
	requestTimeout = 20 * time.Second
	// rest is the pause between two requests of a place that asks all the time.
	rest = 5 * time.Millisecond
	// enough failures are enough: a demonstration that fails should end.
	enough = 5
)

// row is a line of the summary.
type row struct {
	what    string
	asked   int
	own     int
	foreign int
	failed  int
	slowest time.Duration
}

// place is where requests come from: a node or a pod.
type place struct {
	name string
	ns   *netlab.NS
}

// places are a node and the shop's pods on it, of which there must be one.
func (d *demo) places(node string) ([]place, error) {
	list := []place{{"node " + node, d.c.Nodes[node].NS}}
	for _, p := range d.pods {
		if p.node == node {
			list = append(list, place{"pod " + p.name, p.ns})
		}
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("no pod of the shop is on %s", node)
	}
	return list, nil
}

// podOn is the shop's pod on a node.
func (d *demo) podOn(node string) (*pod, error) {
	for _, p := range d.pods {
		if p.node == node {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no pod of the shop is on %s", node)
}

// mustBeClosed dials the Service from the given nodes and from their pods; all
// must be answered by their own unit.
func (d *demo) mustBeClosed(what string, nodes ...string) error {
	r := row{what: what}
	for _, node := range nodes {
		places, err := d.places(node)
		if err != nil {
			return err
		}
		for _, p := range places {
			for i := 0; i < requests && r.failed < enough; i++ {
				r.ask(p, d.to, d.c.Nodes[node].Unit.Name, d.pods)
			}
		}
	}
	return d.judge(r)
}

// during is mustBeClosed for as long as f takes, all places at once.
func (d *demo) during(what string, f func() error, nodes ...string) error {
	ended := make(chan struct{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := row{what: what}
	to, pods := d.to, d.pods // f may learn of others
	for _, node := range nodes {
		places, err := d.places(node)
		if err != nil {
			return err
		}
		unit := d.c.Nodes[node].Unit.Name
		for _, p := range places {
			wg.Go(func() {
				r := row{}
				for open := true; open && r.failed < enough; {
					r.ask(p, to, unit, pods)
					select {
					case <-ended:
						open = false
					case <-time.After(rest):
					}
				}
				mu.Lock()
				defer mu.Unlock()
				all.add(r)
			})
		}
	}
	err := f()
	close(ended)
	wg.Wait()
	return errors.Join(err, d.judge(all))
}

// judge prints a row, and returns an error unless the own unit answered all.
func (d *demo) judge(r row) error {
	d.rows = append(d.rows, r)
	say("%d requests: %d answered by the own unit, %d by another, %d failed; the slowest took %s", r.asked, r.own, r.foreign, r.failed, r.slowest)
	if r.own == 0 || r.own != r.asked {
		return fmt.Errorf("%s: %d of %d requests left the unit, %d failed", r.what, r.foreign, r.asked, r.failed)
	}
	return nil
}

// ask adds a request of a place to a row.
func (r *row) ask(from place, to netip.AddrPort, unit string, pods map[string]*pod) {
	start := time.Now()
	a, err := edge.Ask(from.ns, "tcp", to, requestTimeout)
	r.slowest = max(r.slowest, time.Since(start).Round(100*time.Microsecond))
	r.asked++
	switch p := pods[a.Name]; {
	case err != nil:
		r.failed++
		say("from %s: %v", from.name, err)
	case p != nil && p.unit == unit:
		r.own++
	default:
		r.foreign++
		say("from %s: answered by %s", from.name, a.Name)
	}
}

func (r *row) add(o row) {
	r.asked, r.own, r.foreign, r.failed = r.asked+o.asked, r.own+o.own, r.foreign+o.foreign, r.failed+o.failed
	r.slowest = max(r.slowest, o.slowest)
}

// askPod asks a pod of the shop by its own address, from its node.
func (d *demo) askPod(p *pod) error {
	a, err := edge.Ask(d.c.Nodes[p.node].NS, "tcp", netip.AddrPortFrom(p.ip, appPort), requestTimeout)
	if err == nil && a.Name != p.name {
		err = fmt.Errorf("%s answers at the address of %s", a.Name, p.name)
	}
	return err
}

// orAnswered is err, or that there was none.
func orAnswered(err error) error {
	if err == nil {
		return errors.New("it still answers")
	}
	return err
}

// reaches reports whether a node can connect to an address, where silence for
// a second means that it cannot.
func (d *demo) reaches(node string, to netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := d.c.Nodes[node].NS.Dial(ctx, "tcp", to.String())
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// noCloud makes sure that what was shown was shown without a cloud.
func (d *demo) noCloud() error {
	if d.reaches("a-1", d.c.APIServer()) {
		return errors.New("a-1 still reaches the API server: the uplink was not cut")
	}
	return nil
}

// summary prints all rows, and what crossed the borders of the units.
func (d *demo) summary() error {
	fmt.Println()
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SITUATION\tREQUESTS\tOWN UNIT\tOTHER UNIT\tFAILED\tSLOWEST")
	for _, r := range d.rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\n", r.what, r.asked, r.own, r.foreign, r.failed, r.slowest)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, u := range d.c.Lab.Units {
		l, err := u.Leaks()
		if err != nil {
			return err
		}
		fmt.Printf("unit %s: %d packets to Service addresses and %d new connections to foreign pods crossed its border\n", u.Name, l.Service, l.Foreign)
		if l != (netlab.Leaks{}) {
			return fmt.Errorf("unit %s leaked", u.Name)
		}
	}
	fmt.Printf("done in %s\n", time.Since(d.begin).Round(100*time.Millisecond))
	return nil
}
