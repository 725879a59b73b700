package xds

import (
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/xds/render"
)

// drain sends everything that may be sent, answers it, and returns the names
// of each response.
func drain(t *testing.T, s *subscription, cat *render.Catalog) (sent [][]string) {
	t.Helper()
	for i := 0; ; i++ {
		b, _ := s.next(cat)
		if b == nil {
			return sent
		}
		nonce := string(rune('A' + i))
		s.record(nonce, b)
		s.ack(nonce)
		var names []string
		for _, r := range b.resources {
			names = append(names, r.Name)
		}
		for _, n := range b.removed {
			names = append(names, "-"+n)
		}
		sent = append(sent, names)
	}
}

func want(t *testing.T, got [][]string, batches ...string) {
	t.Helper()
	var text []string
	for _, b := range got {
		text = append(text, strings.Join(b, " "))
	}
	if !slices.Equal(text, batches) {
		t.Errorf("sent %q, want %q", text, batches)
	}
}

func TestWildcardGetsThePreloadedAndNamesAreAnsweredAtOnce(t *testing.T) {
	cat := catalogOf([]byte{1, 2}, []byte{3}, 9)
	s := newSubscription(render.ClusterType)
	s.request(cat, nil, nil, nil)
	want(t, drain(t, s, cat), name(1)+" "+name(2))
	s.request(cat, []string{name(3)}, nil, nil) // on demand
	want(t, drain(t, s, cat), name(3))
	s.request(cat, []string{name(77)}, nil, nil) // unknown: an empty cluster, not silence
	want(t, drain(t, s, cat), name(77))
	s.request(cat, nil, nil, nil) // an ACK alone
	want(t, drain(t, s, cat))
}

func TestAnEmptyWildcardIsAnswered(t *testing.T) {
	s := newSubscription(render.ClusterType)
	s.request(catalogOf(nil, nil, 9), nil, nil, nil)
	want(t, drain(t, s, catalogOf(nil, nil, 9)), "")
}

func TestReconnectSendsOnlyWhatDiffers(t *testing.T) {
	cat := catalogOf([]byte{1, 2}, []byte{3}, 9)
	s := newSubscription(render.EndpointType)
	s.request(cat, []string{name(1), name(2), name(3)}, nil, nil)
	drain(t, s, cat)
	held := s.sent
	again := newSubscription(render.EndpointType)
	again.request(cat, []string{name(1), name(2), name(3)}, nil, held)
	want(t, drain(t, again, cat))
	next := catalogOf([]byte{1, 2}, []byte{3}, 10)
	third := newSubscription(render.EndpointType)
	third.request(next, []string{name(1), name(2), name(3)}, nil, held)
	want(t, drain(t, third, next), name(1)+" "+name(2)+" "+name(3))
}

// An Envoy that holds a listener of an older template keeps it, and its
// connections; one that was started anew gets the newest.
func TestAnOlderTemplateIsNotDrained(t *testing.T) {
	cat := catalogOf([]byte{1}, nil, 9)
	held := map[string]string{}
	names := cat.Wildcard(render.ListenerType)
	for _, name := range names {
		r, _ := cat.Resource(render.ListenerType, name)
		held[name] = r.Before[0]
	}
	s := newSubscription(render.ListenerType)
	s.request(cat, []string{"*"}, nil, held)
	s.markAll(cat)
	want(t, drain(t, s, cat))

	fresh := newSubscription(render.ListenerType)
	fresh.request(cat, []string{"*"}, nil, nil)
	want(t, drain(t, fresh, cat), strings.Join(names, " "))

	held[names[0]] = "of other ports"
	other := newSubscription(render.ListenerType)
	other.request(cat, []string{"*"}, nil, held)
	want(t, drain(t, other, cat), names[0])
}

// The last good state only adds to what a living Envoy holds.
func TestProvisionalCatalogOnlyAdds(t *testing.T) {
	old := catalogOf([]byte{1, 4}, nil, 8)
	old.Provisional = true
	s := newSubscription(render.ClusterType)
	s.request(old, []string{"*", name(3)}, nil, map[string]string{name(1): "newer", name(2): "newer", name(3): "newer"})
	want(t, drain(t, s, old), name(4))
	live := catalogOf([]byte{1, 2}, []byte{3}, 9)
	s.markAll(live)
	want(t, drain(t, s, live), name(1)+" "+name(2)+" "+name(3)+" -"+name(4))
}

// While the kernel may hand them over, clusters that an Envoy holds stay, also one of a run before;
// their endpoints follow.
func TestKeptClustersGoLater(t *testing.T) {
	cat := catalogOf([]byte{1, 4}, []byte{2}, 9)
	held := map[string]string{name(1): "older", name(2): "older", name(3): "older"}
	s, ends := newSubscription(render.ClusterType), newSubscription(render.EndpointType)
	s.request(cat.Keeping(), []string{"*"}, nil, held)
	want(t, drain(t, s, cat.Keeping()), name(1)+" "+name(4))
	ends.request(cat.Keeping(), []string{name(1), name(2), name(3)}, nil, held)
	want(t, drain(t, ends, cat.Keeping()), name(1)+" "+name(2)+" "+name(3))
	s.markAll(cat)
	want(t, drain(t, s, cat), "-"+name(2)+" -"+name(3))
}

func TestNamesAskedForAreEmptiedNotRemoved(t *testing.T) {
	cat := catalogOf([]byte{1, 2}, nil, 9)
	s := newSubscription(render.ClusterType)
	s.request(cat, []string{"*", name(1)}, nil, nil)
	drain(t, s, cat)
	gone := catalogOf(nil, nil, 9)
	s.mark(gone, name(1), false)
	s.mark(gone, name(2), false)
	got := drain(t, s, gone)
	if len(got) != 1 || slices.Contains(got[0], "-"+name(1)) || !slices.Contains(got[0], "-"+name(2)) {
		t.Errorf("sent %q, want %s removed and %s kept", got, name(2), name(1))
	}
}

func TestNackSendsOneByOneAndHoldsBackTheBad(t *testing.T) {
	cat := catalogOf([]byte{1, 2, 3}, nil, 9)
	s := newSubscription(render.ClusterType)
	s.request(cat, nil, nil, nil)
	b, _ := s.next(cat)
	s.record("all", b)
	if refused := s.nack("all"); refused != "" {
		t.Errorf("%s is blamed for a response of three", refused)
	}
	var alone []string
	for {
		b, _ := s.next(cat)
		if b == nil {
			break
		}
		if len(b.resources) != 1 {
			t.Fatalf("%d resources in one response after a NACK", len(b.resources))
		}
		bad := b.resources[0].Name == name(2)
		s.record("one", b)
		if more, _ := s.next(cat); more != nil {
			t.Fatal("the next was sent before the answer")
		}
		if bad {
			if refused := s.nack("one"); refused != name(2) {
				t.Errorf("refused %q", refused)
			}
		} else {
			s.ack("one")
		}
		alone = append(alone, b.resources[0].Name)
	}
	if !slices.Equal(alone, []string{name(1), name(2), name(3)}) {
		t.Errorf("sent alone: %q", alone)
	}
	s.mark(cat, name(2), false)
	want(t, drain(t, s, cat)) // unchanged: held back
	other := catalogOf([]byte{1, 2, 3}, nil, 9)
	s.rejected[name(2)] = "another version"
	s.mark(other, name(2), false)
	want(t, drain(t, s, other), name(2)) // changed: tried again
}

func TestChangedClusterIsFollowedByItsEndpoints(t *testing.T) {
	cat := catalogOf([]byte{1}, nil, 9)
	s := newSubscription(render.ClusterType)
	s.request(cat, nil, nil, map[string]string{name(1): "old template"})
	b, changed := s.next(cat)
	if len(b.resources) != 1 || !slices.Equal(changed, []string{name(1)}) {
		t.Errorf("sent %v, to be followed: %v", b.resources, changed)
	}
}

func TestMaxInflightBoundsWhatIsUnanswered(t *testing.T) {
	cat := catalogOf([]byte{1}, nil, 9)
	s := newSubscription(render.EndpointType)
	s.request(cat, []string{name(1)}, nil, nil)
	for i := range maxInflight {
		s.mark(cat, name(1), true)
		b, _ := s.next(cat)
		if b == nil {
			t.Fatalf("nothing sent with %d unanswered", i)
		}
		s.record(string(rune('a'+i)), b)
	}
	s.mark(cat, name(1), true)
	if b, _ := s.next(cat); b != nil {
		t.Error("sent beyond the limit")
	}
	s.ack("a")
	if b, _ := s.next(cat); b == nil {
		t.Error("not sent after an answer")
	}
}

// send sends the next response under a nonce and returns what is in it.
func send(t *testing.T, s *subscription, cat *render.Catalog, nonce string) []string {
	t.Helper()
	b, _ := s.next(cat)
	if b == nil {
		t.Fatal("nothing is sent")
	}
	s.record(nonce, b)
	return s.inflight[len(s.inflight)-1].names
}

func TestNackBringsBackWhatWasToBeRemoved(t *testing.T) {
	s := newSubscription(render.ClusterType)
	before, after := catalogOf([]byte{1}, nil, 9), catalogOf([]byte{2}, nil, 9)
	s.request(before, nil, nil, nil)
	drain(t, s, before)
	s.markAll(after)
	if got := send(t, s, after, "both"); !slices.Equal(got, []string{name(2), name(1)}) {
		t.Fatalf("sent %q", got)
	}
	s.nack("both")
	want(t, drain(t, s, after), name(2), "-"+name(1))
}

// The answer to a response must not undo what a later one did.
func TestNackOfAnEarlierResponseLeavesTheLater(t *testing.T) {
	s := newSubscription(render.EndpointType)
	first, second := catalogOf([]byte{1}, nil, 8), catalogOf([]byte{1}, nil, 9)
	s.request(first, []string{name(1)}, nil, nil)
	send(t, s, first, "1")
	s.markAll(second)
	send(t, s, second, "2")
	s.nack("1")
	s.ack("2")
	s.markAll(second)
	want(t, drain(t, s, second))
	s.retry()
	want(t, drain(t, s, second))
}

func TestNamesGivenBackUnderTheWildcardAreSentOrRemoved(t *testing.T) {
	cat := catalogOf([]byte{1}, []byte{3}, 9)
	s := newSubscription(render.ClusterType)
	s.request(cat, []string{"*", name(1), name(3)}, nil, nil)
	drain(t, s, cat)
	s.request(cat, nil, []string{name(1), name(3)}, nil)
	want(t, drain(t, s, cat), name(1)+" -"+name(3))
	s.request(cat, nil, []string{"*"}, nil)
	want(t, drain(t, s, cat))
	s.request(cat, []string{"*"}, nil, nil)
	want(t, drain(t, s, cat), name(1))
}

func TestNamesGivenBackAreForgotten(t *testing.T) {
	cat := catalogOf(nil, nil, 9)
	s := newSubscription(render.EndpointType)
	for i := range 100 {
		names := []string{name(byte(i)), name(byte(100 + i))}
		s.request(cat, names, nil, nil)
		if b, _ := s.next(cat); b != nil { // never answered
			s.record(names[0], b)
		}
		s.request(cat, nil, names, nil)
	}
	if n := len(s.pending) + len(s.sent) + len(s.names); n != 0 {
		t.Errorf("%d names are left of none", n)
	}
}
