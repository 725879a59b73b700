package envoy

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A Service of which one cluster has nobody left is named, once, also where clusters are not
// listed for their number; one that has somebody is not.
func TestServicesOfWhichNothingLives(t *testing.T) {
	list := []Ejection{
		{Service: "default/web", Cluster: "a", Out: 2, Of: 2},
		{Service: "default/web", Cluster: "b", Out: 1, Of: 1},
		{Service: "default/some", Cluster: "c", Out: 1, Of: 2},
	}
	if e := summed(slices.Clone(list), time.Time{}); !slices.Equal(e.NoneLive, []string{"default/web"}) || e.MoreNoneLive != 0 {
		t.Errorf("named are %q and %d more", e.NoneLive, e.MoreNoneLive)
	}
	if e := summed(slices.Clone(list[2:]), time.Time{}); e.NoneLive != nil {
		t.Errorf("named are %q", e.NoneLive)
	}
	for i := range maxEjections + 5 {
		list = append(list, Ejection{Service: fmt.Sprintf("a/%02d", i), Cluster: fmt.Sprint(i), Out: 1, Of: 1})
	}
	if e := summed(list, time.Time{}); len(e.NoneLive) != maxDead || e.MoreNoneLive != 6 || e.More != 8 {
		t.Errorf("of many %d are named, and %d more; %d clusters are not listed", len(e.NoneLive), e.MoreNoneLive, e.More)
	}
}
