package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

// config is every choice that the flags offer.
type config struct {
	kubeconfig string
	node       string
	unitKey    string
	namespace  string
	state      string
	dead       string
	keys       []string
	mirror     bool
	bind       string
	healthz    string
	metrics    string
	check      check.Config
	peer       peer.Config
	vote       vote.Config
	verbose    bool

	superEdge   string        // namespace of its ConfigMaps
	voteTimeout time.Duration // of SuperEdge's nodes
	getenv      func(name string) string
}

func defaults() *config {
	return &config{
		unitKey: names.HealthZone, namespace: "gridmesh", healthz: "127.0.0.1:10361", metrics: "127.0.0.1:10362",
		check: check.Default(), peer: peer.Default(), vote: vote.Default(""),
		voteTimeout: time.Minute, getenv: os.Getenv,
	}
}

// ignored are flags of SuperEdge's edge-health that mean nothing here. They are accepted, so
// that its manifests go on working.
var ignored = run.Ignored{
	"masterurl": "the address is in --kubeconfig", "communicateperiod": "each round is reported at once",
	"communicateretrytime": "the next round reports again", "voteperiod": "it is --healthcheckperiod",
	"sync-period": "it is watched", "kube-api-qps": "a node has a rate of its own", "kube-api-burst": "a node has a rate of its own", "worker": "there are as many as are needed",
}

// otherNames are what the edge-health of SuperEdge's articles calls flags that its releases
// call otherwise.
var otherNames = map[string]pflag.NormalizedName{
	"kubelet-plugin": "kubeletplugin", "kubelet-auth-plugin": "kubeletauthplugin", "ping-plugin": "pingplugin",
	"health-check-period": "healthcheckperiod", "health-check-scoreline": "healthcheckscoreline",
	"commun-period": "communicateperiod", "commun-timetout": "communicatetimetout", "commun-retries": "communicateretrytime", "commun-server-port": "communicateserverport",
	"vote-period": "voteperiod", "vote-timeout": "votetimeout", "master": "masterurl",
}

// normal is the name of a flag that may be written as elsewhere.
func normal(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-") // as Kubernetes' programs read it
	if own, ok := otherNames[name]; ok {
		return own
	}
	return pflag.NormalizedName(name)
}

func (c *config) bindChecks(f *pflag.FlagSet) {
	f.Var(&c.check.Ping, "pingplugin", "a node is well where this port takes connections (by default the kubelet's)")
	f.Var(&c.check.Kubelet, "kubeletplugin", "a node is well where its kubelet says so over HTTP, without credentials")
	f.Var(&c.check.KubeletAuth, "kubeletauthplugin", "a node is well where its kubelet says so over HTTPS")
	f.Float64Var(&c.check.ScoreLine, "healthcheckscoreline", c.check.ScoreLine, "what the weights of the probes that found a node well have to reach, times 100")
	f.StringVar(&c.check.Credentials.Token, "kubelet-token-file", "", "token for kubeletauthplugin")
	f.StringVar(&c.check.Credentials.CA, "kubelet-ca-file", "", "who signed the kubelets' certificates (PEM)")
	f.StringVar(&c.check.Credentials.Cert, "kubelet-client-certificate", "", "client certificate for kubeletauthplugin (PEM)")
	f.StringVar(&c.check.Credentials.Key, "kubelet-client-key", "", "the key of that (PEM)")
	run.Files(f, "kubelet-token-file", "kubelet-ca-file", "kubelet-client-certificate", "kubelet-client-key")
}

func (c *config) bindFlags(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: in-cluster credentials)")
	f.StringVar(&c.node, "node-name", "", "name of this node's Node")
	f.StringVar(&c.node, "hostname", "", "SuperEdge's name of --node-name")
	_ = f.MarkHidden("hostname")
	f.StringVar(&c.unitKey, "unit-key", c.unitKey, "label of Nodes whose value is their unit; a node without it is in none")
	f.StringVar(&c.namespace, "namespace", c.namespace, "namespace of the units' Leases")
	f.StringVar(&c.state, "state-file", "", "where it is kept who is in the unit, for starts without a cloud; empty for nowhere")
	f.StringVar(&c.dead, "dead-nodes-file", "", "where gridmesh-agent of this node is told whom the unit calls dead; empty for nowhere")
	f.StringArrayVar(&c.keys, "key-file", nil, "file with the unit's key, which is followed; of two the first signs and both are accepted")
	f.BoolVar(&c.mirror, "mirror-legacy-annotation", false, "write public SuperEdge's annotation nodeunhealth, too")
	f.StringVar(&c.bind, "bind-address", "", "address at which other nodes are listened to (default: all, port 51005)")
	f.Uint16Var(&c.peer.Port, "communicateserverport", c.peer.Port, "port of all nodes of the unit")
	f.StringVar((*string)(&c.peer.Legacy), "legacy", "", "exchange with SuperEdge's own edge-health, too, of this generation: v0.7 or v0.8")
	f.BoolVar(&c.peer.NAT, "nat", false, "take what comes from an address that is not the sender's")
	f.Var(&seconds{&c.vote.Every}, "healthcheckperiod", "a round, 5s to 10s: each node is checked once")
	f.StringVar(&c.healthz, "healthz-bind-address", c.healthz, "address of /healthz; empty for none")
	f.StringVar(&c.metrics, "metrics-bind-address", c.metrics, "address of /metrics; empty for none")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "log more")
	f.StringVar(&c.superEdge, "superedge-namespace", "", "namespace of SuperEdge's ConfigMaps, which are followed: who votes with whom, and, without --key-file, the key; empty for none")
	f.Var(&seconds{&c.voteTimeout}, "votetimeout", "with --legacy: how long what a SuperEdge node reported counts (it reports once a minute)")
	f.Var(&seconds{&c.peer.ReportTimeout}, "communicatetimetout", "how long a report takes at most, half a round if that is less")
	c.bindChecks(f)
	f.SetNormalizeFunc(normal)
	run.Files(f, "kubeconfig", "key-file", "state-file", "dead-nodes-file")
	ignored.Bind(f)
	run.Klog.Bind(f)
}

// seconds is a duration, of which SuperEdge has whole seconds without a unit.
type seconds struct{ of *time.Duration }

// Set implements pflag.Value.
func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		*s.of = time.Duration(n) * time.Second
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no number of seconds, nor a duration as 10s", text)
	}
	*s.of = d
	return nil
}

// String implements pflag.Value.
func (s *seconds) String() string { return s.of.String() }

// Type implements pflag.Value.
func (s *seconds) Type() string { return "duration" }

// withSuperEdge votes so that SuperEdge's nodes, who count what they are told themselves, count
// this one: it sees as many as it can report, reports to as many, and waits for as long as
// they are silent between two reports.
func (c *config) withSuperEdge() {
	c.vote.Observers, c.vote.Reporters = peer.MostTold, peer.MostTold
	c.vote.Fresh = max(c.vote.Fresh, c.voteTimeout+c.vote.Every)
	c.peer.LegacyFresh = c.vote.Fresh
}

// superEdgesKey reports whether the key is that of SuperEdge's ConfigMap.
func (c *config) superEdgesKey() bool { return c.superEdge != "" && len(c.keys) == 0 }

// The rounds for which the times of all parts fit together: in half of a shorter one no check of a
// dead node ends in time to answer, and with a longer one a death is found after the cloud has
// marked the node, and what a verdict rests on is old before it is renewed.
const (
	leastPeriod = 5 * time.Second
	mostPeriod  = 10 * time.Second
)

// fitPeriod takes the nearest period that fits: SuperEdge's manifests have others.
func (c *config) fitPeriod(log *slog.Logger) {
	fit := min(max(c.vote.Every, leastPeriod), mostPeriod)
	if c.vote.Every > 0 && fit != c.vote.Every {
		log.Warn("a round is another one than was asked for: "+fmt.Sprintf("%s to %s are possible", leastPeriod, mostPeriod),
			obs.KeyFlag, "--healthcheckperiod", obs.KeyWhy, fmt.Sprintf("%s was asked for, and it is %s", c.vote.Every, fit))
		c.vote.Every = fit
	}
}

func (c *config) complete(f *pflag.FlagSet, log *slog.Logger) error {
	if c.node == "" { // SuperEdge's manifests have no --hostname
		c.node = strings.NewReplacer(" ", "", "\n", "").Replace(c.getenv("NODE_NAME"))
	}
	c.vote.Self = c.node
	c.fitPeriod(log)
	c.vote.Fresh, c.vote.AskFor = c.vote.Every*5/2, c.vote.Every/2
	c.vote.Renew = 6 * c.vote.Every
	c.check.Within = c.vote.AskFor * 4 / 5 // the rest is for the way
	c.peer.AskTimeout = c.vote.AskFor * 9 / 10
	if half := c.vote.Every / 2; c.peer.ReportTimeout <= 0 || c.peer.ReportTimeout > half && half > 0 {
		c.peer.ReportTimeout = half
	}
	if c.peer.Legacy != peer.None {
		c.withSuperEdge()
	}
	if c.bind == "" {
		c.bind = fmt.Sprintf(":%d", c.peer.Port)
	}
	errs := []error{
		c.check.Validate(), c.peer.Validate(),
		run.CheckTCP("bind-address", c.bind), run.CheckTCP("healthz-bind-address", c.healthz), run.CheckTCP("metrics-bind-address", c.metrics),
	}
	if c.node == "" {
		errs = append(errs, errors.New("--node-name: give the name of this node's Node; is a variable of the shell not set?"))
	} else if err := c.vote.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--healthcheckperiod: %w", err))
	}
	if c.unitKey == "" || c.namespace == "" {
		errs = append(errs, fmt.Errorf("--unit-key %q, --namespace %q: must not be empty", c.unitKey, c.namespace))
	}
	if len(c.keys) > 2 {
		errs = append(errs, fmt.Errorf("--key-file: %d files, two at most", len(c.keys)))
	}
	if !c.superEdgesKey() && c.superEdge != "" {
		log.Info("the key of SuperEdge's ConfigMap does not count", obs.KeyFlag, "--key-file", obs.KeyWhy, "there is a file with one")
	}
	if c.superEdge != "" && c.state == "" {
		log.Warn("SuperEdge's ConfigMaps are not kept: after a start without a cloud this node has no key, and does not vote", obs.KeyFlag, "--state-file")
	}
	ignored.Tell(f, log)
	run.Klog.Tell(f, log)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", run.ErrUsage, err)
	}
	return nil
}
