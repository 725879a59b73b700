package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// openWatches is how many watches of Services the API server itself counts, of
// everybody.
func openWatches(t *testing.T) (n int) {
	t.Helper()
	text, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(patient(t))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `resource="services"`) && strings.Contains(line, `verb="WATCH"`) {
			var of int
			_, err := fmt.Sscanf(line[strings.LastIndex(line, "}")+1:], "%d", &of)
			must(t, err)
			n += of
		}
	}
	return n
}

// watchGap is for how long somebody's watch may be missing between two of them.
const watchGap = 6 * time.Second

// A list that is held back is looked at again and again, and one watch stays
// open for it, on an API server that answers watch-lists and on one that does
// not.
func TestHeldListsLeaveNoWatchOpen(t *testing.T) {
	const services = "/api/v1/services"
	for _, watchLists := range []bool{true, false} {
		t.Run(fmt.Sprintf("watch-lists %v", watchLists), func(t *testing.T) {
			most, before := 0, 2 // the feed's own: of Services, and of those of other proxies
			for begin := time.Now(); time.Since(begin) < watchGap; time.Sleep(100 * time.Millisecond) {
				most = max(most, openWatches(t))
			}
			before += most
			f := newFaultyAPI(t)
			f.watchLists = watchLists
			feed := f.follow(t)
			wait.Eventually(t, func() error {
				if feed.Snapshot() == nil {
					return fmt.Errorf("waiting for %v", feed.Waiting())
				}
				return nil
			})
			all := servicesIn(feed.Snapshot())
			f.set("unanchored")
			_, first := f.asked(services)
			most = 0
			wait.Eventually(t, func() error {
				// Two watches: of Services, and of those of other proxies. While one
				// of them is made anew, the one before may still be counted.
				open, lists := f.asked(services)
				most = max(most, open)
				if held := lists - first; held < 3 {
					return fmt.Errorf("looked at %d times", held)
				}
				// While it cannot be, other lists that lose much are held as well.
				if h := feed.Health(); !strings.Contains(strings.Join(h.Held, "\n"), "services lacks default/kubernetes") {
					return fmt.Errorf("its health says %+v", h)
				}
				return nil
			})
			if most > 4 {
				t.Errorf("%d watches of Services were open at once", most)
			}
			wait.Eventually(t, func() error {
				if open, _ := f.asked(services); open != 2 || openWatches(t) > before {
					return fmt.Errorf("%d watches are open, %d at the API server, which had %d", open, openWatches(t), before)
				}
				return nil
			})
			if n := servicesIn(feed.Snapshot()); n != all {
				t.Errorf("%d of %d Services are left", n, all)
			}
			f.set("")
			wait.Within(t, time.Minute, func() error {
				if h := feed.Health(); h.Err != "" || len(h.Held) > 0 {
					return fmt.Errorf("its health says %+v", h)
				}
				return nil
			})
		})
	}
}

// An API server that knows no ServiceCIDRs, as before 1.33, is followed
// without them.
func TestAPIServerBefore133(t *testing.T) {
	for _, watchLists := range []bool{true, false} {
		t.Run(fmt.Sprintf("watch-lists %v", watchLists), func(t *testing.T) {
			f := newFaultyAPI(t)
			f.watchLists = watchLists
			f.set("before 1.33")
			feed := f.follow(t)
			wait.Eventually(t, func() error {
				if feed.Snapshot() == nil {
					return fmt.Errorf("waiting for %v: %+v", feed.Waiting(), feed.Health())
				}
				return nil
			})
			if s := feed.Snapshot(); len(s.ServiceCIDRs) != 0 || servicesIn(s) == 0 || s.Nodes.Len() == 0 {
				t.Errorf("it has the ranges %v, %d Services and %d nodes", s.ServiceCIDRs, servicesIn(s), s.Nodes.Len())
			}
		})
	}
}
