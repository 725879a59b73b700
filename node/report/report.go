// Package report is what a running agent says of its node: what it serves, and
// what is wrong.
//
//	report.go    the report as JSON, and asking for it
//	text.go      as text, for people
//	check.go     what of it is not as it should be (status --check)
//	faults.go    what is wrong with Envoy, and whether it is needed
//	problems.go  mistakes in objects, as views go by
//	elsewhere.go closed Services that the unit, or any, has no endpoint of
//	paths.go     how many frontends are served by what, as views go by
//	unitkeys.go  keys that the node has no label of, and that a kubelet may set
package report

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
)

// maxListed bounds each list of a report that others can make long.
const maxListed = 50

// Where the snapshot that is in force comes from.
const (
	Live     = "live"
	LastGood = "last good state"
	None     = "none yet" // before the first snapshot
)

// Report is what a running agent serves and what is wrong, as JSON on the
// status socket. Others read it: fields may come, and none is renamed or gets
// another meaning (docs/agent.md lists them).
type Report struct {
	Version         string             `json:"version"`
	Node            string             `json:"node"`
	Unit            map[string]string  `json:"unit"`
	UnitUnknown     bool               `json:"unitUnknown,omitempty"` // the snapshot has no Node of this name
	UnitWithout     []string           `json:"unitWithout,omitempty"` // keys that Services use, some node has, and this one has not
	Source          string             `json:"source"`                // "live", "last good state" or "none yet"
	LastContact     time.Time          `json:"lastContact,omitzero"`  // when the source was last known to be alive, to this process or one before it; zero: never, as far as is known
	APIServer       *APIServer         `json:"apiServer,omitempty"`
	Pods            string             `json:"pods"`
	PodCIDRs        []netip.Prefix     `json:"podCIDRs,omitempty"` // of this node
	Services        int                `json:"services"`
	Preloaded       int                `json:"preloaded"`
	Datapath        string             `json:"datapath,omitempty"`               // as --datapath has it; "" without a kernel path
	Paths           *Paths             `json:"paths,omitempty"`                  // how many frontends are served by what; nil as well
	Elsewhere       []string           `json:"elsewhere,omitempty"`              // closed Services that this node may use no endpoint of, though there are some in other units: the first of them
	MoreElsewhere   int                `json:"moreElsewhere,omitempty"`          // such Services that are not named
	Nowhere         []string           `json:"nowhere,omitempty"`                // closed Services of this node's unit that have no ready endpoint in any: the first of them
	MoreNowhere     int                `json:"moreNowhere,omitempty"`            // such Services that are not named
	Portless        []string           `json:"portless,omitempty"`               // closed Services with endpoints that this node may use, and a port that none of them has: the first of them
	MorePortless    int                `json:"morePortless,omitempty"`           // such Services that are not named
	Policies        bool               `json:"networkPolicies,omitempty"`        // the cluster has some, or nobody has said yet
	PoliciesUnknown bool               `json:"networkPoliciesUnknown,omitempty"` // nobody has said yet
	PoliciesSeen    time.Time          `json:"networkPoliciesSeen,omitzero"`     // there were some at the last look, which was then
	PoliciesNone    time.Time          `json:"networkPoliciesNone,omitzero"`     // there were none at the last look, which was then; later than that nobody has said anything
	PoliciesUnasked bool               `json:"networkPoliciesUnasked,omitempty"` // there were none when an agent before this one asked; this one has no answer yet
	PoliciesUntil   time.Time          `json:"networkPoliciesUntil,omitzero"`    // there are none any more: until when they are reckoned with, if none comes
	TakeOver        bool               `json:"takeOver,omitempty"`               // it looks at kube-proxy, and removes what that leaves
	BesideKubeProxy bool               `json:"besideKubeProxy,omitempty"`        // rules of kube-proxy are there, or were a moment ago: the kernel serves all
	KubeProxyUntil  time.Time          `json:"kubeProxyUntil,omitzero"`          // they are gone: when Envoy serves, too, if they stay away
	KubeProxyAlive  string             `json:"kubeProxyAlive,omitempty"`         // they are there: why kube-proxy counts as running; "" for no sign of it
	EnvoyAbsent     bool               `json:"envoyAbsent,omitempty"`            // the kernel serves what Envoy served
	EnvoyBack       time.Time          `json:"envoyBack,omitzero"`               // of an absent one that serves again: when it gets new connections, if it goes on
	EnvoyUnknown    string             `json:"envoyUnknown,omitempty"`           // why it could not be asked whether it serves; "" where it could
	Updated         time.Time          `json:"updated,omitzero"`                 // zero before the first snapshot is in force
	Error           string             `json:"error,omitempty"`
	Held            *Held              `json:"held,omitempty"`          // nil: nothing is
	VotedDead       []string           `json:"votedDead,omitempty"`     // nodes that count as dead by the vote of their unit, for the API server is away or has not heard them since
	MoreDead        int                `json:"moreVotedDead,omitempty"` // such nodes that are not listed
	Notes           []string           `json:"notes,omitempty"`
	Envoys          []xds.Stream       `json:"envoys"`
	Nacks           []xds.Nack         `json:"nacks,omitempty"`
	MoreNacks       int                `json:"moreNacks,omitempty"` // refusals that are not listed
	Ejections       *envoy.Ejections   `json:"ejections,omitempty"` // nil: Envoy was not asked
	Load            *envoy.Load        `json:"load,omitempty"`      // nil: Envoy did not say
	Findings        []capture.Finding  `json:"findings,omitempty"`
	Problems        []topology.Problem `json:"problems,omitempty"`
	More            int                `json:"moreProblems,omitempty"` // problems that are not listed
	Notices         int                `json:"notices"`                // what Services ask for and no node serves: gridmesh view
}

// ByRulesAlone is KubeProxyAlive where somebody wrote kube-proxy's rules and gives no other
// sign: none would show its end, either.
const ByRulesAlone = "its rules were written while the agent ran, and nothing else shows it"

// APIServer is how the API server answers.
type APIServer struct {
	LastContact time.Time `json:"lastContact,omitzero"`  // when it last answered anything, as above; zero: never
	Error       string    `json:"error,omitempty"`       // the last failure of what fails the longest; "" for nothing
	Since       time.Time `json:"since,omitzero"`        // of Error: when that began to fail
	Refuses     bool      `json:"refused,omitempty"`     // of Error: it knows not who asks, or does not permit it
	Refused     time.Time `json:"refusedSince,omitzero"` // of Error: since when it does; zero: it does not, or nobody says since when
	Held        []string  `json:"held,omitempty"`        // for each of its lists that is not believed, why
}

// refuses reports whether it refuses what the agent asks.
func (s *APIServer) refuses() bool { return s.Refuses || !s.Refused.IsZero() }

// Held is what is held as it was before an outage of the uplink.
type Held struct {
	Endpoints int       `json:"endpoints"`
	Nodes     []string  `json:"nodes"`
	Until     time.Time `json:"until"` // at the latest
}

// Refused takes what Envoy refuses.
func (r *Report) Refused(list []xds.Nack) {
	r.Nacks = list
	if more := len(list) - maxListed; more > 0 {
		r.Nacks, r.MoreNacks = list[:maxListed], more
	}
}

// Listed are as many names as a report lists, and how many more there are.
func Listed(names []string) (list []string, more int) {
	n := min(len(names), maxListed)
	return names[:n], len(names) - n
}

// Ask asks the agent that serves a status socket.
func Ask(ctx context.Context, socket string) (*Report, error) {
	r := &Report{}
	if err := run.AskUnix(ctx, socket, "/status", r); err != nil {
		return nil, fmt.Errorf("no agent answers on %s (is it running, and may you open the socket?): %w", socket, err)
	}
	return r, nil
}
