package cleanup

import (
	"fmt"
	"strings"
)

// Result is what became of a cleanup that met no error.
type Result struct {
	// StateDir is that of its Config.
	StateDir string
	// Found is whether there was anything to take away.
	Found bool
	// HandedOver is whether kube-proxy was seen to serve before anything was taken away.
	HandedOver bool
	// Doubtful are sysctls that are 0 where nothing was kept of what they were: it
	// may have been gridmesh that set them.
	Doubtful []string
	// Left is what has names of gridmesh's and is somebody's own, or may be.
	Left []Left
}

// Text says it to people, in a line or two, and one for each that is left.
func (r Result) Text() string {
	text := "gridmesh's rules, routes and sysctls are gone from this node; "
	if r.HandedOver {
		text += "kube-proxy serves\n"
	} else {
		text += "gridmesh serves no Service here any more\n"
	}
	if !r.Found {
		text = fmt.Sprintf("nothing of gridmesh was here: no rules in this network, and no files in --state-dir %s; another directory would have to be named\n", r.StateDir)
	}
	if len(r.Doubtful) > 0 {
		text += fmt.Sprintf("nothing was kept in --state-dir %s of what sysctls were before; that %s is 0 may be of gridmesh: set 1 where it was so\n", r.StateDir, strings.Join(r.Doubtful, " and "))
	}
	for _, l := range r.Left {
		text += fmt.Sprintf("left %s: %s\n", l.Path, l.Why)
	}
	return text
}
