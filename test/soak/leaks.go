package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// spare is how many more of anything a program may have than a fresh one: the
// runtime's own, and connections of a moment, of who asks for metrics, of Envoy's to
// endpoints. What a step leaves comes to more in some hundred steps.
const spare = 24

// usage counts what a node's programs hold: goroutines, open files, sockets.
func usage(n *cluster.Node) (map[string]int, error) {
	count := map[string]int{}
	return count, errors.Join(
		holds(count, n.Agent, n.Metrics), holds(count, n.DNS, n.DNSMetrics), holds(count, n.Envoy, nil))
}

// controllersWatches are the watches of controlled, in what the controller holds.
const controllersWatches = "watches of grids and their children"

// controllerUsage counts what the controller holds. Kubernetes' own controllers watch
// the same, and as much before it starts again as after.
func (s *Soak) controllerUsage(ctx context.Context) (map[string]int, error) {
	n, err := s.watches(ctx, controlled)
	count := map[string]int{controllersWatches: n}
	return count, errors.Join(err, holds(count, s.controller, func() (string, error) { return edge.Get(s.c.Lab.Cloud, controllerMetrics, "/metrics") }))
}

// holds counts what a program holds. Its goroutines are in its metrics, nil of Envoy.
func holds(count map[string]int, p *edge.Process, metrics func() (string, error)) error {
	if metrics != nil {
		text, err := metrics()
		if err != nil {
			return fmt.Errorf("metrics of %s: %w", p.Name, err)
		}
		_, rest, _ := strings.Cut(text, "\ngo_goroutines ")
		value, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%s does not say how many goroutines it has: %w", p.Name, err)
		}
		count[p.Name+": goroutines"] = n
	}
	dir := fmt.Sprintf("/proc/%d/fd", p.PID())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	count[p.Name+": open files"] = len(entries)
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			count[p.Name+": sockets"]++
		}
	}
	return nil
}

// compareController waits until a controller that was started again holds as much as
// the one before it did.
func (s *Soak) compareController(ctx context.Context, before map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return wait.Until(ctx, func() error {
		now, err := s.controllerUsage(ctx)
		if err != nil {
			return err
		}
		if list := grown(now, before); len(list) > 0 {
			return violations(map[string][]string{"leaks": list})
		}
		return nil
	})
}

// grown are the counts that are larger than a fresh start's.
func grown(fresh, now map[string]int) (list []string) {
	for what, n := range now {
		most := fresh[what] + spare
		if what == controllersWatches {
			most = fresh[what] + spareWatches
		}
		if n > most {
			list = append(list, fmt.Sprintf("%s: %d, and after a fresh start %d", what, n, fresh[what]))
		}
	}
	slices.Sort(list)
	return list
}

// watched are the resources that agents and the soak itself watch, controlled those
// that of gridmesh's programs the controller alone does. The API server does not say
// whose a watch is.
var (
	watched    = []string{"services", "endpointslices", "nodes", "servicecidrs", "networkpolicies"}
	controlled = []string{"deploymentgrids", "statefulsetgrids", "servicegrids", "deployments", "statefulsets", "controllerrevisions"}
)

var watchLine = regexp.MustCompile(`^apiserver_longrunning_requests\{.*resource="(\w+)".*verb="WATCH".*\} (\S+)$`)

// watches counts the watches of resources that the API server has open.
func (s *Soak) watches(ctx context.Context, resources []string) (n int, err error) {
	text, err := s.c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		m := watchLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !slices.Contains(resources, m[1]) {
			continue
		}
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return 0, err
		}
		n += int(v)
	}
	if n == 0 {
		return 0, fmt.Errorf("the API server says nothing of watches")
	}
	return n, nil
}

// spareWatches are those that are being renewed at a moment.
const spareWatches = 3

// compareWatches waits until no more watches are open than when the run began:
// those of programs that have ended are counted out when their connections are.
func (s *Soak) compareWatches(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := 0 // that the API server has said
	err := wait.Until(ctx, func() error {
		now, err := s.watches(ctx, watched)
		if err != nil {
			return err
		}
		if last = now; now > s.watching+spareWatches {
			return fmt.Errorf("%d watches are open", now)
		}
		return nil
	})
	if err == nil || last == 0 {
		return err
	}
	return &Violation{Judge: "watches", Text: fmt.Sprintf("%d are open, and were %d when the run began", last, s.watching)}
}
