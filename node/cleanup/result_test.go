package cleanup

import "testing"

func TestText(t *testing.T) {
	const gone = "gridmesh's rules, routes and sysctls are gone from this node; gridmesh serves no Service here any more\n"
	for want, r := range map[string]Result{
		"nothing of gridmesh was here: no rules in this network, and no files in --state-dir /s; another directory would have to be named\n": {StateDir: "/s"},
		gone: {StateDir: "/s", Found: true},
		"gridmesh's rules, routes and sysctls are gone from this node; kube-proxy serves\n":                                                            {StateDir: "/s", Found: true, HandedOver: true},
		gone + "nothing was kept in --state-dir /s of what sysctls were before; that net.a and net.b is 0 may be of gridmesh: set 1 where it was so\n": {StateDir: "/s", Found: true, Doubtful: []string{"net.a", "net.b"}},
		gone + "left /s/state: it is another's\n": {StateDir: "/s", Found: true, Left: []Left{{"/s/state", "it is another's"}}},
	} {
		if got := r.Text(); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}
