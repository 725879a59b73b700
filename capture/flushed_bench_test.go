package capture

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// What a flush of everything by somebody else costs at n Services of ten endpoints, which the kernel has alone or
// Envoy before it, woken by Watch as the agent is: until the guard is back, until all that Envoy has is led to it,
// until the kernel path serves every Service, and until it has all of its endpoints; and all that Repair does then.
func BenchmarkFlushed(b *testing.B) {
	for name, path := range map[string]topology.Datapath{"kernel": topology.DatapathKernel, "both": topology.DatapathEnvoy} {
		for _, n := range []int{1, 1000, 10000} {
			b.Run(fmt.Sprint(name, "-", n), func(b *testing.B) { benchFlushed(b, n, path) })
		}
	}
}

func benchFlushed(b *testing.B, n int, path topology.Datapath) {
	network := testkit.NewNetwork(b)
	cfg := kernelConfig()
	c, err := New(cfg, Host{StateDir: b.TempDir(), ProcSys: "/proc/sys"})
	must(b, err)
	must(b, c.Install(cfg.ServiceCIDRs))
	defer func() { must(b, c.Remove()) }()
	k := newCluster()
	k.viewer = topology.NewViewer("n0", topology.Options{Datapath: path})
	for i := range n {
		var endpoints []string
		for e := range 10 {
			endpoints = append(endpoints, fmt.Sprintf("10.%d.%d.%d", 100+e, i>>8, i&0xff))
		}
		k.serve(fmt.Sprint(i), flushedService(i).Addr.String(), endpoints...)
	}
	must(b, c.Retract(k.view(), false))
	must(b, c.Extend())
	must(b, network.Do(func() error {
		wake, err := Watch(b.Context())
		if err != nil {
			return err
		}
		conn, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		other, took := nft.Open(), map[string]time.Duration{}
		defer other.Close()
		rounds := 0
		for b.Loop() {
			b.StopTimer()
			for calmed := false; !calmed; { // what it wrote itself wakes, too
				calm(wake)
				repaired, err := c.Repair()
				if err != nil {
					return err
				}
				calmed = !repaired
			}
			calm(wake)
			other.FlushRuleset()
			if err := other.Flush(); err != nil {
				return err
			}
			b.StartTimer()
			begin := time.Now()
			seen := make(chan error, 1)
			go func() { seen <- flushedWatch(conn, begin, n, path, took) }()
			<-wake
			if _, err := c.Repair(); err != nil {
				return err
			}
			took["repair"] += time.Since(begin)
			if err := <-seen; err != nil {
				return err
			}
			rounds++
		}
		for name, sum := range took {
			b.ReportMetric(float64(sum.Microseconds())/1000/float64(rounds), name+"-ms")
		}
		return nil
	}))
}

func flushedService(i int) topology.Frontend { return benchService(i, 0, 0)[0].Frontend }

// flushedWatch notes when what is asked for is there, of a hundred Services.
func flushedWatch(conn *nl.Conn, begin time.Time, n int, path topology.Datapath, took map[string]time.Duration) error {
	const sample = 100
	var fronts, lasts [][]byte
	for i := 0; i < n; i += max(1, n/sample) {
		fronts, lasts = append(fronts, frontendKey(flushedService(i))), append(lasts, numberedKey(flushedService(i), 9))
	}
	for _, step := range []struct {
		name, table, set string
		keys             [][]byte
	}{
		{"guarded", rules.Name, "guard4", [][]byte{{10, 96, 0, 0}}},
		{"envoy", rules.Name, "serve4", fronts},
		{"served", rules.KernelName, "front4", fronts},
		{"whole", rules.KernelName, "slots4", lasts},
	} {
		if step.table == rules.Name && step.set == "serve4" && path == topology.DatapathKernel {
			continue
		}
		for _, key := range step.keys {
			for {
				there, err := hasElement(conn, step.table, step.set, key)
				if err != nil {
					return fmt.Errorf("%s: %w", step.name, err)
				}
				if there {
					break
				}
				if time.Since(begin) > time.Minute {
					return errors.New(step.name + " is not back")
				}
				time.Sleep(time.Millisecond)
			}
		}
		took[step.name] += time.Since(begin)
	}
	return nil
}

// hasElement asks for one.
func hasElement(conn *nl.Conn, table, set string, key []byte) (bool, error) {
	one := nft.Attribute(1|unix.NLA_F_NESTED, nft.Attribute(unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, nft.Attribute(unix.NFTA_DATA_VALUE, key)))
	data := nft.Header(nftables.TableFamilyINet)
	data = append(data, nft.Attribute(unix.NFTA_SET_ELEM_LIST_TABLE, []byte(table+"\x00"))...)
	data = append(data, nft.Attribute(unix.NFTA_SET_ELEM_LIST_SET, []byte(set+"\x00"))...)
	data = append(data, nft.Attribute(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, one)...)
	_, err := conn.Execute(nl.Message{Header: nl.Header{Type: nft.Message(unix.NFT_MSG_GETSETELEM), Flags: nl.Request}, Data: data})
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// What the kernel alone takes of that: its transactions of all elements of n Services of ten endpoints, and of those
// with which every Service is served, into a table that holds nothing. Nobody listens to what is written.
func BenchmarkFlushedKernelAlone(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			network := testkit.NewNetwork(b)
			cfg := kernelConfig()
			p := plan.NewKernelPlanner(cfg, nil)
			for i := range n {
				p.Set(fmt.Sprint(i), benchService(i, 10, 0))
			}
			p.Settle()
			took, rounds := [2]time.Duration{}, 0
			must(b, network.Do(func() error {
				for b.Loop() {
					rounds++
					if err := kernelAlone(cfg, p, &took); err != nil {
						return err
					}
				}
				return nil
			}))
			for i, name := range []string{"first-ms", "all-ms"} {
				b.ReportMetric(float64(took[i].Microseconds())/1000/float64(rounds), name)
			}
		})
	}
}

// kernelAlone adds how long the kernel took for the first stage, and for all.
func kernelAlone(cfg plan.Config, p *plan.KernelPlanner, took *[2]time.Duration) error {
	t := newKernelTable(cfg)
	t.conn.Keep()
	defer t.conn.Close()
	t.conn.FlushRuleset()
	if err := errors.Join(t.conn.Flush(), t.lay(nil, false)); err != nil {
		return err
	}
	var sum time.Duration
	flush := func() error {
		begin := time.Now()
		err := t.conn.Flush()
		sum += time.Since(begin)
		return err
	}
	for i, s := range p.Anew() {
		if _, err := t.addPicks(s.Picks); err != nil {
			return err
		}
		batch, written := kernelBatch{}, 0
		put := func() (err error) {
			if written += batch.steps; batch.steps > 0 {
				_, err = batch.put(t)
			}
			if written >= perTransaction {
				written = 0
				err = errors.Join(err, flush())
			}
			return err
		}
		for step := range stepsAnew(s.Parts(partOf)) {
			if batch.steps == chunk || batch.set != step.set {
				if err := put(); err != nil {
					return err
				}
			}
			batch.add(step)
		}
		if err := errors.Join(put(), flush()); err != nil {
			return err
		}
		if i == 0 {
			took[0] += sum
		}
	}
	took[1] += sum
	return nil
}
