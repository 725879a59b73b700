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
	// Doubtful are sysctls that are 0 where nothing was kept of what they were: it
	// may have been gridmesh that set them.
	Doubtful []string
}

// Text says it to people, in a line or two.
func (r Result) Text() string {
	if !r.Found {
		return fmt.Sprintf("nothing of gridmesh was here: no rules in this network, and no files in --state-dir %s; another directory would have to be named\n", r.StateDir)
	}
	text := "gridmesh's rules, routes and sysctls are gone from this node; Services are no longer served here\n"
	if len(r.Doubtful) > 0 {
		text += fmt.Sprintf("nothing was kept in --state-dir %s of what sysctls were before; that %s is 0 may be of gridmesh: set 1 where it was so\n", r.StateDir, strings.Join(r.Doubtful, " and "))
	}
	return text
}
