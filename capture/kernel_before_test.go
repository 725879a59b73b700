package capture

import (
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Who dials before there are rules for it, as pods do that start before the node's agent, is
// served by his next try, and so is who happens on his port later: conntrack would know him for
// two minutes as one who is not translated.
// So it is where a node boots without a cloud, too.
func TestWhoDialledBeforeIsServed(t *testing.T) {
	t.Parallel()
	for name, provisional := range map[string]bool{"online": false, "without a cloud": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialledBefore(t, provisional)
		})
	}
}

func dialledBefore(t *testing.T, provisional bool) {
	t.Helper()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	from, to := map[string]*testkit.Network{"10.244.0.5": l.a, "192.0.2.1": l.node, "192.0.2.9": l.outside}, "203.0.113.7:80"
	answers := make(chan string, len(from))
	for ip, ns := range from {
		go func() {
			start := time.Now()
			conn, answer := dial(t, ns, "tcp", ip+":40001", to, 20*time.Second)
			if conn != nil {
				_ = conn.Close()
			}
			answers <- ip + ": " + answer + " after " + time.Since(start).Round(time.Millisecond).String()
		}()
	}
	l.untilSYNs(t, to, len(from))
	must(t, l.setKernel(map[string][]plan.KernelFrontend{"default/web": {{Frontend: tcp(to), Tiers: tiers(false, "b")}}}, provisional))
	for range from {
		answer := <-answers
		t.Log(answer)
		if !strings.Contains(answer, ": b ") {
			t.Errorf("%s; want the endpoint's answer", answer)
		}
	}
}
