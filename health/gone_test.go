package health

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
)

// A ConfigMap that is gone leaves what was in force until that has stood, also where it was kept by
// the daemon before: without it all nodes would be one unit at once. One that comes again counts at once.
func TestAConfigMapIsGone(t *testing.T) {
	const byZone, all = `key none; by "superedgehealth/topology-zone" units [] all false; faults []`, `key none; by "" units [] all true; faults []`
	zones := page{Known: true, There: true, Data: map[string]string{names.TaintZoneAdmission: "true"}}
	file := filepath.Join(t.TempDir(), "unit.superedge")
	now := time.Unix(1000, 0)
	var f *followed
	begin := func() {
		f = newFollowed(file)
		f.Keys = nil
		f.begin()
	}
	is := func(what, want string) {
		t.Helper()
		if got := f.state(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	gone := func(after time.Duration) {
		now = now.Add(after)
		f.hear(now, names.HealthZoneConfig, page{}, false)
		f.hear(now, names.HealthConfig, page{}, false)
	}
	begin()
	gone(0)
	is("there never was one", all)
	f.hear(now, names.HealthZoneConfig, zones, true)
	is("there is one", byZone)
	gone(time.Hour)
	gone(goneStands - time.Second)
	is("it is gone for less than a minute", byZone)
	f.hear(now, names.HealthZoneConfig, zones, true)
	gone(time.Second)
	gone(goneStands - time.Second)
	is("it was there meanwhile", byZone)
	if n := f.log.Count("is gone; what was in force stays"); n != 2 {
		t.Errorf("it is told %d times: %s", n, f.log.String())
	}
	begin()
	gone(time.Hour)
	is("to a daemon that begins", byZone)
	gone(goneStands)
	is("it is gone for a minute", all)
}
