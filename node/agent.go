package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/health/told"
	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/node/healthport"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// Agent is the agent of one node. Nothing in it changes after New but what
// locks itself, and patience, which is the start's alone: who fills it and who reads it stands beside it. The state of the
// loop is the type loop.
type Agent struct {
	cfg     Config
	parts   Parts
	log     *slog.Logger
	metrics *metrics
	xds     XDS

	demand       *preload.Demand              // from Envoy's streams to the loop
	reports      *reports                     // from the loop to who asks for nodes, and back
	podCIDRs     latest.Value[[]netip.Prefix] // the own Node's: of who asks for it, and until then what the start or the loop has from disk
	nodeIPs      latest.Value[[]netip.Addr]   // the own Node's, of who asks for it to the loop
	answeredOwn  atomic.Bool                  // the own Node was asked for, and there was an answer
	ownNode      chan struct{}                // one slot: from the loop to who asks for the own Node
	inspection   chan struct{}                // one slot: the node is to be looked at again
	answered     atomic.Pointer[time.Time]    // when the API server last gave a sign of life that was asked for
	known        atomic.Pointer[time.Time]    // the last contact of the agents before, of the start and of notes that come late, for all who tell of contact; nil before
	heard        atomic.Pointer[outage.Heard] // of the loop's last look, for the same; nil before
	pulse        pulse                        // from the loop to the health and the status
	dir          *statedir.Dir                // of the start, the loop, what writes beside it, and who looks at the node
	patience     statedir.Budget              // of the start, with the disk
	ranges       []netip.Prefix               // of --service-cidr that are guarded; of the start, and then of nobody
	notGuarded   []capture.Finding            // of the start: what it says of other ranges of the flag
	undecided    wrongRanges                  // of the start: ranges of the flag wait for the last good state
	held         []netip.Prefix               // of the start, and then of the loop: what a run before guarded
	doubtful     bool                         // wrong ranges of the flag are guarded, for nobody knew better; of the start, and then of nobody
	readState    func(path string) (*source.State, error)
	readNotes    func(statedir.Notebook) (outage.Noted, outage.Note)
	clocks       func() outage.Clocks             // they may be read by anybody
	moment       func(time.Time) outage.Clocks    // and so may what they said at a time of this process
	found        findings                         // of all who look (findings.go), to the status and the metrics
	report       atomic.Pointer[report.Report]    // from the loop to the status and the health; nil before the first
	inForce      atomic.Pointer[envoy.InForce]    // from the loop to who asks Envoy; nil before the first
	envoy        latest.Value[*envoy.Look]        // from who asks Envoy to the loop, the status and the metrics
	askEnvoy     chan struct{}                    // one slot: from the status to who asks Envoy
	absence      latest.Value[absence]            // from who asks whether Envoy serves to the loop
	streamed     chan struct{}                    // one slot: a stream of Envoy began or ended
	policies     latest.Value[word]               // from the start and who asks for NetworkPolicies to the loop and who looks at the node: there are any
	engines      latest.Value[word]               // from the start and who looks at the node to the loop: an engine of them is to be reckoned with
	beside       latest.Value[beside]             // from the start and who looks at kube-proxy to the loop
	proxyFound   bool                             // of the start, and then of who looks at kube-proxy: rules of it were there
	torn         int                              // of the start, and then of who looks at the node: how many looks in a row were torn, and showed no engine
	proxyAtStart proxyLife                        // of the start: what its look says of kube-proxy's life
	verdicts     latest.Value[told.Heard]         // from who hears the node's health daemon to the loop
	paths        chan struct{}                    // one slot: one of these five is another
	ports        *healthport.Servers              // of the loop; nil without a kernel path
	leaving      atomic.Bool                      // from who follows the own Node to the health: it is about to go
	snapshot     latest.Value[*topology.Snapshot] // from the loop to other processes, the hosts file and who looks at the node
}

// New makes an agent. It validates and allocates; nothing on the node is
// looked at or changed before Run.
func New(cfg Config, parts Parts) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for name, missing := range map[string]bool{
		"Source": parts.Source == nil, "Capture": parts.Capture == nil, "XDS": parts.XDS == nil,
		"Inspect": parts.Inspect == nil, "WatchLinks": parts.WatchLinks == nil,
		"EnvoyServes": parts.EnvoyServes == nil && cfg.Datapath != topology.DatapathNone,
		"KubeProxy":   parts.KubeProxy == nil && cfg.TakeOver,
	} {
		if missing {
			return nil, fmt.Errorf("%w: %s", errMissingPart, name)
		}
	}
	parts.Registry = cmp.Or(parts.Registry, prometheus.NewRegistry())
	parts.Log = cmp.Or(parts.Log, slog.New(slog.NewTextHandler(io.Discard, nil)))
	slot := func() chan struct{} { return make(chan struct{}, 1) }
	a := &Agent{
		cfg: cfg, parts: parts, log: parts.Log, metrics: newMetrics(), demand: preload.NewDemand(), reports: newReports(),
		ranges: append([]netip.Prefix{}, cfg.ServiceCIDRs...), ownNode: slot(), inspection: slot(), askEnvoy: slot(), streamed: slot(), paths: slot(),
	}
	a.dir, a.patience.Of = statedir.New(cfg.StateDir, a.stateFault), statedir.StartPatience
	a.readState, a.readNotes = source.ReadStateOf(cfg.Node), statedir.Notebook.Read
	a.clocks, a.moment = readClocks, moment
	if err := errors.Join(a.metrics.register(parts.Registry), parts.Registry.Register(&a.found), parts.Registry.Register(envoy.NewMetrics(&a.envoy))); err != nil {
		return nil, fmt.Errorf("register the agent's metrics: %w", err)
	}
	if err := a.countContact(); err != nil {
		return nil, err
	}
	if cfg.Datapath != topology.DatapathNone {
		if err := a.metrics.registerPaths(parts.Registry); err != nil {
			return nil, fmt.Errorf("register the metrics of paths: %w", err)
		}
	}
	a.ports = a.healthPorts(healthport.BoundsHere())
	a.xds = parts.XDS(a.demand.Add, a.refused)
	return a, nil
}

var errMissingPart = errors.New("a part is missing")
