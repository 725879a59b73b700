package admin

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func one(cluster, address string, connections, failed, active uint64) Use {
	u := Use{Cluster: cluster, Counters: Counters{connections, failed, active}}
	if address != "" {
		u.End = netip.MustParseAddrPort(address)
	}
	return u
}

// serviceOf is "svc" and the first word of a cluster's name.
func serviceOf(cluster string) string {
	service, _, known := strings.Cut(cluster, " ")
	if !known {
		return ""
	}
	return service
}

// Counters never go back: not when an endpoint is replaced, nor with Envoy.
func TestTrafficAddsUp(t *testing.T) {
	traffic := NewTraffic(10)
	take := func(want Counters, used []string, list ...Use) {
		t.Helper()
		if got := traffic.Take(list, serviceOf); !slices.Equal(got, used) {
			t.Errorf("in use %v, want %v", got, used)
		}
		if got := traffic.Totals()["web"]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	take(Counters{5, 1, 2}, []string{"web 1"}, one("web 1", "10.1.0.1:80", 5, 1, 2))
	take(Counters{5, 1, 0}, nil, one("web 1", "10.1.0.1:80", 5, 1, 0))
	take(Counters{5, 1, 1}, []string{"web 1"}, one("web 1", "10.1.0.1:80", 5, 1, 1)) // nothing new, but open
	take(Counters{12, 2, 3}, []string{"web 1", "web 2"}, one("web 2", "10.1.0.1:80", 4, 1, 2), one("web 1", "10.1.0.1:80", 8, 1, 1))
	take(Counters{13, 2, 0}, []string{"web 1"}, one("web 1", "10.1.0.1:80", 1, 0, 0)) // another Envoy
	take(Counters{15, 3, 0}, []string{"web 1"}, one("web 1", "10.1.0.2:80", 2, 1, 0)) // another endpoint
	take(Counters{15, 3, 0}, nil, one("nobody's", "10.1.0.9:80", 9, 9, 9))
	take(Counters{15, 3, 0}, nil)
	// One that counts by cluster, which outlives its endpoints.
	take(Counters{19, 3, 1}, []string{"web 1"}, one("web 1", "", 4, 0, 1))
	take(Counters{22, 4, 0}, []string{"web 1"}, one("web 1", "", 7, 1, 0))
	take(Counters{23, 4, 0}, []string{"web 1"}, one("web 1", "", 1, 0, 0)) // another Envoy
	traffic.Forget(func(service string) bool { return service != "web" })
	if got := traffic.Totals(); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
}

// A cluster of many Services does not become as many series.
func TestTrafficIsBounded(t *testing.T) {
	traffic := NewTraffic(2)
	var list []Use
	for i := range 5 {
		list = append(list, one(fmt.Sprintf("svc%d x", i), "10.1.0.1:80", 3, 1, 0))
	}
	traffic.Take(list, serviceOf)
	want := map[string]Counters{"svc0": {3, 1, 0}, "svc1": {3, 1, 0}, Other: {9, 3, 0}}
	if got := traffic.Totals(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	traffic.Take(list, serviceOf)
	if got := traffic.Totals(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v after nothing, want %v", got, want)
	}
}
