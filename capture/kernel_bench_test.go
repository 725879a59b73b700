package capture

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// What the kernel path costs at n Services of ten endpoints each: the load of
// all of it, one endpoint that is another, one that comes or goes, the whole read
// back, and what a look costs after somebody else wrote into nftables.
func BenchmarkKernel(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchKernel(b, n, 0) })
	}
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n, "-with-affinity"), func(b *testing.B) { benchKernel(b, n, 3*time.Hour) })
	}
}

func benchKernel(b *testing.B, n int, affinity time.Duration) {
	network := testkit.NewNetwork(b)
	cfg := kernelConfig()
	c, err := New(cfg, Host{StateDir: b.TempDir(), ProcSys: "/proc/sys"})
	must(b, err)
	must(b, c.Install(cfg.ServiceCIDRs))
	defer func() { must(b, c.Remove()) }()
	all := map[string][]plan.KernelFrontend{}
	for i := range n {
		all[fmt.Sprint(i)] = sticky(fmt.Sprint(i), affinity, benchService(i, 10, 0))
	}
	heap, slab, figures := heapNow(), slabNow(b), map[string]float64{}
	measure := func(name string, times int, do func(i int) error) {
		begin := time.Now()
		for i := range times {
			must(b, do(i))
		}
		figures[name+"-ms"] = float64(time.Since(begin).Microseconds()) / 1000 / float64(times)
	}
	must(b, network.Do(func() error {
		measure("load", 1, func(int) error { return c.setKernel(all, false) })
		figures["heap-MiB"] = float64(heapNow()-heap) / (1 << 20)
		figures["kernel-MiB"] = float64(slabNow(b)-slab) / 1024
		change := func(size int) func(i int) error {
			return func(i int) error {
				return c.setKernel(map[string][]plan.KernelFrontend{"7": sticky("7", affinity, benchService(7, size+i%2, i))}, false)
			}
		}
		measure("another", 20, func(i int) error {
			return c.setKernel(map[string][]plan.KernelFrontend{"7": sticky("7", affinity, benchService(7, 10, i+1))}, false)
		})
		measure("comes-or-goes", 20, change(10))
		measure("read-back", 3, func(int) error { _, err := readElements(); return err })
		measure("read-back-by-the-library", 1, func(int) error {
			k := c.kernel.table
			_, err := k.conn.GetSetElements(k.sets["slots4"])
			return err
		})
		measure("look-after-others", 3, func(int) error {
			foreign := newKernelTable(cfg)
			if err := foreign.flush(); err != nil {
				return err
			}
			repaired, err := c.Repair()
			if repaired {
				b.Error("there was nothing to repair")
			}
			return err
		})
		for b.Loop() {
			if _, err := c.Repair(); err != nil {
				return err
			}
		}
		for name, figure := range figures {
			b.ReportMetric(figure, name)
		}
		return nil
	}))
}

// sticky are frontends of a Service whose clients keep their endpoint.
func sticky(service string, keep time.Duration, list []plan.KernelFrontend) []plan.KernelFrontend {
	for i := range list {
		list[i].Affinity, list[i].Session = keep, service
	}
	return list
}

// benchService has endpoints on other nodes; the last is another in each round.
func benchService(i, endpoints, round int) []plan.KernelFrontend {
	f := plan.KernelFrontend{Frontend: topology.Frontend{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Port: 80, Protocol: topology.TCP}}
	var list []netip.AddrPort
	for e := range endpoints {
		port := uint16(8000 + e)
		if e == endpoints-1 {
			port = uint16(9000 + round)
		}
		list = append(list, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), port))
	}
	f.Tiers = [][]netip.AddrPort{list}
	return []plan.KernelFrontend{f}
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// slabNow is what the kernel has allocated for itself, in KiB, of the machine.
func slabNow(b *testing.B) (kib int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	must(b, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "Slab:" || fields[0] == "Percpu:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			must(b, err)
			kib += n
		}
	}
	return kib
}
