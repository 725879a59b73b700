package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
)

var errSilent = errors.New("nobody listens")

// Nothing is handed over to what a kube-proxy left, nor to one that has begun and has not
// written it anew, nor for a family that it does not serve.
func TestLacking(t *testing.T) {
	const runs = "it runs"
	both, four := []string{"ip", "ip6"}, []string{"ip"}
	wrote := func(families ...string) kubeproxy.Word { return kubeproxy.Word{Wrote: families, Sure: true} }
	for name, tc := range map[string]struct {
		next   nextProxy
		want   string
		serves bool
	}{
		"it serves":                  {nextProxy{both, both, runs, wrote(both...), nil}, "", true},
		"it serves more":             {nextProxy{four, both, runs, wrote(both...), nil}, "", true},
		"an old one left more":       {nextProxy{four, both, runs, wrote(four...), nil}, "", true},
		"it lacks one":               {nextProxy{both, four, runs, wrote(both...), nil}, "not serve IPv6", false},
		"it begins":                  {nextProxy{both, nil, runs, wrote(), nil}, "not serve IPv4 and IPv6", false},
		"it begins, and one left":    {nextProxy{both, both, runs, wrote(), nil}, "not written its IPv4 and IPv6 rules since it started (its metrics", false},
		"it has written one":         {nextProxy{both, both, runs, wrote(four...), nil}, "not written its IPv6 rules", false},
		"by its health":              {nextProxy{both, both, runs, kubeproxy.Word{Wrote: four}, nil}, "IPv6 rules since it started (its health", false},
		"it says nothing":            {nextProxy{both, both, runs, wrote(), errSilent}, errSilent.Error(), false},
		"it left rules":              {nextProxy{both, both, "", wrote(), nil}, "no sign", false},
		"nobody runs, nothing left":  {nextProxy{both, nil, "", wrote(), nil}, "no sign", false},
		"nothing is to be handed":    {nextProxy{nil, nil, "", wrote(), nil}, "", false},
		"nothing, and one serves":    {nextProxy{nil, both, runs, wrote(both...), nil}, "", true},
		"nothing, and one begins":    {nextProxy{nil, both, runs, wrote(four...), nil}, "", false},
		"nothing, and one is silent": {nextProxy{nil, both, runs, wrote(), errSilent}, "", false},
		"an agent has its ports":     {nextProxy{both, both, runs, wrote(), fmt.Errorf("127.0.0.1:10249: %w", kubeproxy.ErrAgent)}, "stop the agent and Envoy first", false},
		"nothing, and one left":      {nextProxy{nil, both, "", wrote(), nil}, "", false},
		"nothing, and one has none":  {nextProxy{nil, nil, runs, wrote(), nil}, "", false},
	} {
		if got := tc.next.lacks(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) || tc.next.serves() != tc.serves {
			t.Errorf("%s: %q, serves %v; want %q, %v", name, got, tc.next.serves(), tc.want, tc.serves)
		}
	}
}

// A kube-proxy that comes back is waited for until it has written rules by its own word; one
// that tells its health alone for 10 s more; and one that says nothing for ever.
func TestHandOver(t *testing.T) {
	both := []string{"ip", "ip6"}
	sure, health := kubeproxy.Word{Wrote: both, Sure: true}, kubeproxy.Word{Wrote: both}
	for name, tc := range map[string]struct {
		at    func(s int) (kubeproxy.Word, error) // what it says, by the seconds that are over
		took  time.Duration
		waits int // how many things it waits for, in words
	}{
		"it has written":        {func(int) (kubeproxy.Word, error) { return sure, nil }, 0, 0},
		"health alone":          {func(int) (kubeproxy.Word, error) { return health, nil }, metricsWithin, 1},
		"metrics come a little": {func(s int) (kubeproxy.Word, error) { return kubeproxy.Word{Wrote: both, Sure: s >= 4}, nil }, 4 * time.Second, 1},
		"it is restarted": {func(s int) (kubeproxy.Word, error) {
			if s == 8 {
				return kubeproxy.Word{}, errSilent
			}
			return health, nil
		}, 9*time.Second + metricsWithin, 3},
		"it gets there": {func(s int) (kubeproxy.Word, error) {
			switch {
			case s < 3600:
				return kubeproxy.Word{}, errSilent
			case s < 7200:
				return kubeproxy.Word{Sure: true}, nil
			}
			return sure, nil
		}, 2 * time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, out := time.Now(), &bytes.Buffer{}
				h := handOver{look: func(context.Context) (nextProxy, error) {
					word, silent := tc.at(int(time.Since(began) / time.Second))
					return nextProxy{both, both, "it runs", word, silent}, nil
				}}
				serves, err := h.await(t.Context(), out)
				if took := time.Since(began); err != nil || !serves || took != tc.took {
					t.Errorf("serves %v, %v, after %s; want it after %s", serves, err, took, tc.took)
				}
				if n := strings.Count(out.String(), "waiting: "); n != tc.waits {
					t.Errorf("it waits for %d things, want %d:\n%s", n, tc.waits, out)
				}
			})
		})
	}
}

// Whoever is tired of waiting hears what for, and not that the last look was broken off.
func TestHandOverIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		both, out := []string{"ip", "ip6"}, &bytes.Buffer{}
		h := handOver{look: func(ctx context.Context) (nextProxy, error) {
			ask, cancel := context.WithTimeout(ctx, 700*time.Millisecond) // hangs
			defer cancel()
			<-ask.Done()
			if err := ctx.Err(); err != nil {
				return nextProxy{}, err
			}
			return nextProxy{both, both, "it runs", kubeproxy.Word{}, errSilent}, nil
		}}
		serves, err := h.await(ctx, out)
		if err == nil || serves || !strings.Contains(err.Error(), "nothing is removed: kube-proxy runs (it runs)") || !strings.Contains(err.Error(), errSilent.Error()) {
			t.Errorf("serves %v, %v", serves, err)
		}
		if n := strings.Count(out.String(), "waiting: "); n != 1 {
			t.Errorf("it waits for %d things:\n%s", n, out)
		}
	})
}

// Where nothing of gridmesh serves nothing is waited for, and nobody is said to serve who
// was not seen.
func TestNobodyIsHandedOverTo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.serves("a", "--manifests", p.manifests())()
	out := p.ends(p.agent("a", "cleanup", "--hand-over=kube-proxy"), 0)
	if !strings.Contains(out, "are gone from this node; gridmesh serves no Service here any more") {
		t.Error(out)
	}
}
