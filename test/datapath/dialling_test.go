package datapath

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// dialEvery is how often a client dials, by each network.
const dialEvery = 50 * time.Millisecond

// target is what a client dials, and who answers there.
type target struct {
	from    client
	network string
	to      netip.AddrPort
	want    string // pods by their nodes; refused; "" where that changes: whoever is of the unit, or nobody
	again   bool   // by UDP a question may be lost, and whoever repeats it is answered
}

func (d target) String() string { return fmt.Sprintf("%s by %s to %s", d.from.name, d.network, d.to) }

// by is a dialler of one network, which goes through its targets in turn.
type by struct{ client, network string }

// dialling dials all the while, each client by each network 20 times a second, until what it returns is
// called, which waits for what is under way. It fails a test where somebody else answers than who is
// to, and where nobody does.
func dialling(t *testing.T, f *fleet, what string, list []target) (stop func()) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	ended, counts := make(chan struct{}), map[string]int{}
	one := func(d target) {
		start := time.Now()
		result, err := f.dial(d)
		mu.Lock()
		defer mu.Unlock()
		if counts[result]++; err != nil && counts[result] <= mostTold {
			t.Errorf("%s: at %s: %s, after %s: %v", what, start.Format("15:04:05.000"), d, time.Since(start).Round(time.Millisecond), err)
		}
	}
	of := map[by][]target{}
	for _, d := range list {
		key := by{d.from.name, d.network}
		of[key] = append(of[key], d)
	}
	for _, turn := range of {
		wg.Go(func() {
			tick := time.NewTicker(dialEvery)
			defer tick.Stop()
			for i := 0; ; i++ {
				wg.Go(func() { one(turn[i%len(turn)]) })
				select {
				case <-tick.C:
				case <-ended:
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
		t.Logf("%s: dialled, and %v", what, counts)
	})
	t.Cleanup(stop)
	return stop
}

// What becomes of a dial: it is as it is to be, or as it may be, or wrong.
const (
	asWanted = "as wanted"
	asAgain  = "as wanted, when asked again"
	asMay    = "answered where that changes"
	asMayNot = "not answered where that changes"
	wrong    = "wrong"
)

// mostTold is how many dials that are wrong a test tells of.
const mostTold = 5

// repeatAfter is when who asked by UDP asks again.
const repeatAfter = time.Second

// newPorts counts those that were dialled from, below those that the kernel chooses.
var newPorts atomic.Uint32

// fromNewPort dials by UDP from a port that nobody had for long: a flow of a frontend that is gone lives on
// until it is silent, as with kube-proxy, and who happens on its port is answered.
func fromNewPort(ns *netlab.NS, to netip.AddrPort) (conn net.Conn, err error) {
	const first, all = 16000, 14000
	own := &net.UDPAddr{Port: first + int(newPorts.Add(1)%all)}
	err = ns.Do(func() error {
		conn, err = (&net.Dialer{LocalAddr: own}).Dial("udp", to.String())
		return err
	})
	return conn, err
}

// ask asks once, or until there is an answer where questions may be lost. Who is to be answered has time for
// it, and who is not was refused by then.
func (d target) ask() (name string, asked int, err error) {
	patience := answers
	if d.want == "" || d.want == refused {
		patience = firstPacket
	}
	if d.network == "tcp" {
		a, err := edge.Ask(d.from.ns, d.network, d.to, patience)
		return a.Name, 1, err
	}
	conn, err := fromNewPort(d.from.ns, d.to)
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	l, last := &line{conn, bufio.NewReader(conn)}, time.Now().Add(patience)
	if d.again {
		patience = repeatAfter
	}
	for asked = 1; ; asked++ {
		if name, err = l.whoWithin(patience); !d.again || !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(last) {
			return name, asked, err
		}
	}
}

// dial dials once, and says what became of it, and what is wrong with that.
func (f *fleet) dial(d target) (result string, err error) {
	who, asked, err := d.ask()
	name, ours := strings.CutPrefix(who, f.name+"-")
	switch {
	case err == nil && d.want == "" && ours && strings.HasPrefix(name, d.from.node.Unit.Name+"-"):
		return asMay, nil
	case err == nil && !slices.Contains(strings.Fields(d.want), name):
		return wrong, fmt.Errorf("answered by %s, want %s", who, cmp.Or(d.want, "one of the unit, or nobody"))
	case err == nil && asked > 1:
		return asAgain, nil
	case err == nil || d.want == refused:
		return asWanted, nil
	case d.want == "":
		return asMayNot, nil
	}
	return wrong, err
}

// follows returns nil where a client is answered by all who are to, each in its time, and by nobody else.
func (f *fleet) follows(d target, patience time.Duration) error {
	if d.want == refused {
		if a, err := edge.Ask(d.from.ns, d.network, d.to, firstPacket); err == nil {
			return fmt.Errorf("%s is answered by %s", d, a.Name)
		}
		return nil
	}
	list, seen := strings.Fields(d.want), map[string]bool{}
	for range 8 * len(list) {
		a, err := edge.Ask(d.from.ns, d.network, d.to, patience)
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		name := strings.TrimPrefix(a.Name, f.name+"-")
		if !slices.Contains(list, name) {
			return fmt.Errorf("%s is answered by %s, want %s", d, name, d.want)
		}
		seen[name] = true
	}
	if len(seen) < len(list) {
		return fmt.Errorf("%s is answered by %v alone, want %s", d, seen, d.want)
	}
	return nil
}

// firstPatience is how long an answer may take first, and then twice as long each time: what is lost by UDP tells
// nothing of when it is served, and a slow machine needs more.
const firstPatience = 25 * time.Millisecond

// followed waits until all clients are answered as they are to, and returns how long that took.
func (f *fleet) followed(list []target, within time.Duration) (took time.Duration, err error) {
	start := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), start.Add(within))
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, d := range list {
		wg.Go(func() {
			var asked time.Duration
			patience := firstPatience
			failed := wait.Until(ctx, func() error {
				asked, patience = time.Since(start), min(2*patience, time.Second)
				return f.follows(d, patience)
			})
			mu.Lock()
			defer mu.Unlock()
			if took = max(took, asked); err == nil { // one tells enough
				err = failed
			}
		})
	}
	wg.Wait()
	return took, err
}
