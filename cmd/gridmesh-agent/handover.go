package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
)

// handOverEvery is how often kube-proxy is looked at that is waited for, and metricsWithin
// for how long its metrics are where its health answers: while the agent had their ports
// kube-proxy tried again every 5 s.
const handOverEvery, metricsWithin = time.Second, 10 * time.Second

// handOver waits for a kube-proxy. Its look is another in tests.
type handOver struct {
	look   func(context.Context) (nextProxy, error)
	unsure time.Time // since when its health alone says that it serves; zero where it is otherwise
}

// nextProxy is what a look showed of a kube-proxy that is handed over to, in families (ip, ip6).
type nextProxy struct {
	ours, theirs []string       // that gridmesh serves, and for which rules of kube-proxy are there
	alive        string         // why it counts as running; "" where it does not
	word         kubeproxy.Word // of one that runs: for which it wrote rules itself
	silent       error          // why it does not say
}

// awaitKubeProxy waits until a kube-proxy runs and serves every family that gridmesh serves
// on this node, behind its rules: what takes these away is then no outage. It reports
// whether it saw one that does; where gridmesh serves nothing it waits for none.
func awaitKubeProxy(ctx context.Context, w io.Writer, host capture.Host) (serves bool, err error) {
	h := handOver{look: lookForKubeProxy}
	if serves, err = h.await(ctx, w); err != nil {
		return false, err
	}
	return serves, capture.PutBack(host)
}

// await says what it waits for; a look that fails is tried again.
func (h *handOver) await(ctx context.Context, w io.Writer) (serves bool, err error) {
	said := ""
	for {
		next, err := h.look(ctx)
		lacks := h.lacks(next, time.Now())
		switch {
		case err != nil:
			lacks = "not all of this node could be looked at: " + err.Error()
		case lacks == "":
			return next.serves(), nil
		}
		if lacks != said && ctx.Err() == nil { // one that was broken off shows nothing
			said = lacks
			fmt.Fprintln(w, "waiting:", lacks)
		}
		select {
		case <-time.After(handOverEvery):
		case <-ctx.Done():
			return false, fmt.Errorf("nothing is removed: %s", cmp.Or(said, lacks))
		}
	}
}

func lookForKubeProxy(ctx context.Context) (next nextProxy, err error) {
	ours, unread := capture.Serves()
	theirs, unknown := kubeproxy.Serving()
	signs, unseen := kubeproxy.Alive()
	next = nextProxy{ours: ours, theirs: theirs, alive: signs.Text()}
	if next.alive != "" {
		next.word, next.silent = kubeproxy.Here().Word(ctx)
	}
	return next, errors.Join(unread, unknown, unseen)
}

// lacks says what is waited for; "" for nothing. Where health alone answers its metrics are
// waited for a little: they may be off, or elsewhere.
func (h *handOver) lacks(next nextProxy, now time.Time) string {
	lacks := next.lacks()
	if lacks != "" || len(next.ours) == 0 || next.word.Sure {
		h.unsure = time.Time{}
		return lacks
	}
	if h.unsure.IsZero() {
		h.unsure = now
	}
	if now.Sub(h.unsure) < metricsWithin {
		return fmt.Sprintf("kube-proxy's metrics on port %d, which say whether it has written its rules since it started, do not answer; they are waited for, %s at most, and then its health is believed", kubeproxy.MetricsPort, metricsWithin)
	}
	return ""
}

// lacks says what kube-proxy does not serve yet of what gridmesh does; "" for nothing.
// What one left that is gone serves nobody for long; nor does it for one that has begun and
// has heard of no Services yet. While the cloud is away that one is silent: so its silence counts.
func (n nextProxy) lacks() string {
	unserved, unwritten := without(n.ours, n.theirs), without(n.ours, n.word.Wrote)
	switch {
	case len(n.ours) == 0:
		return ""
	case n.alive == "":
		return "there is no sign on this node of a kube-proxy that runs, and gridmesh's rules serve"
	case unserved != "":
		return "kube-proxy does not serve " + unserved + " on this node yet, and gridmesh's rules do"
	case errors.Is(n.silent, kubeproxy.ErrAgent):
		return "gridmesh-agent runs on this node and has the ports at which kube-proxy says whether it has written its rules: stop the agent and Envoy first (gridmesh node migrate --back says what is next)"
	case n.silent != nil:
		return fmt.Sprintf("kube-proxy runs (%s), and does not say whether it has written its rules since it started (%v): so it is until it has reached the API server, and for some seconds after an agent had these ports. Where it is told to answer elsewhere or not at all, look whether it serves, and leave --hand-over away", n.alive, n.silent)
	case unwritten != "":
		by, port := "health", kubeproxy.HealthPort
		if n.word.Sure {
			by, port = "metrics", kubeproxy.MetricsPort
		}
		return fmt.Sprintf("kube-proxy has not written its %s rules since it started (its %s on port %d); those of an earlier one are there", unwritten, by, port)
	}
	return ""
}

// serves reports whether a kube-proxy was seen that runs and serves: what gridmesh does or,
// where that is nothing, what has rules of it.
func (n nextProxy) serves() bool {
	if len(n.ours) == 0 {
		n.ours = n.theirs
	}
	return len(n.ours) > 0 && n.lacks() == ""
}

// without are, in words, those families that are not among others.
func without(families, others []string) string {
	return kubeproxy.FamiliesText(slices.DeleteFunc(slices.Clone(families), func(f string) bool { return slices.Contains(others, f) }))
}
