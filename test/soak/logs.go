package soak

import (
	"fmt"
	"strings"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// crashes are what a program writes that went wrong in a way that nothing
// excuses, whoever killed it later: a data race, a panic, an Envoy's signal.
var crashes = []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", "Caught Segmentation fault", "Caught Aborted", "assert failure"}

// over keeps a program that has ended, or is about to be started again, for
// what it wrote.
func (s *Soak) over(p *edge.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = append(s.past, p)
}

// judgeLogs looks for crashes in what programs wrote. Those that have ended are
// looked at once.
func (s *Soak) judgeLogs() error {
	s.mu.Lock()
	list := s.past
	s.past = nil
	s.mu.Unlock()
	wrong := map[string][]string{}
	for _, p := range append(list, s.programs()...) {
		if text := crash(p.Log()); text != "" {
			wrong["crashes"] = append(wrong["crashes"], fmt.Sprintf("%s wrote:\n%s", p.Name, text))
		}
	}
	return violations(wrong)
}

// crash is the part of a log that tells of one; "" for none.
func crash(log string) string {
	for _, mark := range crashes {
		if i := strings.Index(log, mark); i >= 0 {
			return log[i:min(len(log), i+4000)]
		}
	}
	return ""
}

// lastLines are the last lines of a log, of so many bytes in all.
func lastLines(log string, most int) string {
	if len(log) <= most {
		return log
	}
	log = log[len(log)-most:]
	if _, whole, ok := strings.Cut(log, "\n"); ok && whole != "" {
		log = whole
	}
	return "...\n" + log
}
