package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	kubefeed "github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// patience is how long a cluster or an agent may take to tell its state.
const patience = 30 * time.Second

// silence is how long nothing is said about that.
const silence = 2 * time.Second

// input is what every subcommand needs: a state, a node, and the agent's
// choices that matter to the decision.
type input struct {
	node       string
	files      []string
	kubeconfig string
	socket     string
	reading    string
	output     string
	pods       []string
	cidrs      []string
	preloadMax int
	bridgeNF   string
	lenient    bool
	client     *kube.Client // of kubeconfig, once it is used
}

func (in *input) bind(cmd *cobra.Command) {
	host, _ := os.Hostname()
	f := cmd.Flags()
	f.StringVar(&in.node, "node", strings.ToLower(host), "look from this node")
	f.StringArrayVarP(&in.files, "filename", "f", nil, "directory or file of manifests; may be given again")
	in.bindLenient(f)
	f.StringVar(&in.kubeconfig, "kubeconfig", "", "kubeconfig of a cluster")
	f.StringVar(&in.socket, "socket", "/run/gridmesh/feed.sock", "feed socket of this node's agent")
	f.StringVar(&in.reading, "topology-keys", "ordered", "reading of several topologyKeys: ordered or union")
	f.StringVarP(&in.output, "output", "o", "table", "table, json or yaml")
	f.StringSliceVar(&in.pods, "pod-cidr", nil, "pod CIDRs of the node, whose sources are kept (default: the Node's, or its agent's)")
	f.StringSliceVar(&in.cidrs, "service-cidr", nil, "ranges of ClusterIPs besides the cluster's own")
	f.StringVar(&in.bridgeNF, "bridge-netfilter", "clear", "clear or keep, as the agent's; with keep, pods of the node count as on a bridge")
	f.IntVar(&in.preloadMax, "preload-max", 500, "most clusters that Envoy holds without being asked")
}

func (in *input) opts() (topology.Options, error) {
	reading, err := topology.ParseReading(in.reading)
	if err != nil {
		return topology.Options{}, fmt.Errorf("%w: --topology-keys %w", run.ErrUsage, err)
	}
	return topology.Options{Reading: reading}, nil
}

func (in *input) capture() (plan.Config, error) {
	cfg := plan.Default()
	switch in.bridgeNF {
	case "clear", "keep":
		cfg.KeepBridgeNetfilter = in.bridgeNF == "keep"
	default:
		return cfg, fmt.Errorf("%w: --bridge-netfilter %q is not known; use clear or keep", run.ErrUsage, in.bridgeNF)
	}
	for flag, list := range map[string]*[]string{"--pod-cidr": &in.pods, "--service-cidr": &in.cidrs} {
		for _, text := range *list {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return cfg, fmt.Errorf("%w: %s: %q is no CIDR such as 10.244.7.0/24", run.ErrUsage, flag, text)
			}
			if flag == "--pod-cidr" {
				cfg.PodCIDRs = append(cfg.PodCIDRs, p.Masked())
			} else {
				cfg.ServiceCIDRs = append(cfg.ServiceCIDRs, p.Masked())
			}
		}
	}
	return cfg, nil
}

// snapshot reads the state from where the flags say.
func (in *input) snapshot(ctx context.Context) (*topology.Snapshot, error) {
	switch {
	case len(in.files) > 0 && in.kubeconfig != "":
		return nil, fmt.Errorf("%w: -f and --kubeconfig exclude each other", run.ErrUsage)
	case len(in.files) > 0:
		return source.ReadDir(in.files...)
	case in.kubeconfig != "":
		client, err := in.connect()
		if err != nil {
			return nil, err
		}
		f := kubefeed.New(client, obs.NewLog(os.Stderr, false), kubefeed.NewMetrics(prometheus.NewRegistry()))
		return first(ctx, f, "the API server", func() string {
			text := "its lists of " + strings.Join(f.Waiting(), ", ")
			h := f.Health()
			for _, why := range append(h.Held, h.Err) {
				if why != "" {
					text += " (" + why + ")"
				}
			}
			return text
		})
	}
	if err := reachable(ctx, in.socket); err != nil {
		return nil, err
	}
	return first(ctx, source.NewSocket(in.socket), "the agent on "+in.socket, func() string { return "its state; the socket is open, and says nothing" })
}

// reachable says at once why nothing can come from an agent's socket.
func reachable(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: no agent runs here (%s is not there); give -f DIR or --kubeconfig F", run.ErrUsage, socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no agent answers on %s, though one did: is gridmesh-agent running on this node? Give -f DIR or --kubeconfig F to do without", socket)
	}
	return fmt.Errorf("reach the agent of this node: %w", err)
}

// connect connects once: client-go's log is global.
func (in *input) connect() (_ *kube.Client, err error) {
	if in.client == nil {
		in.client, err = connect(in.kubeconfig)
	}
	return in.client, err
}

// connect reaches a cluster. It is called once: client-go's log is global.
func connect(kubeconfig string) (*kube.Client, error) {
	kube.LogTo(obs.NewLog(os.Stderr, false))
	return kube.Connect(kubeconfig, "gridmesh/"+obs.Version(), kube.NodeRate())
}

type feed interface {
	Run(ctx context.Context) error
	Get() (*topology.Snapshot, bool)
	Wake() <-chan struct{}
}

// first is the first state of a feed. After a moment people are told what it
// waits for.
func first(ctx context.Context, f feed, who string, missing func() string) (*topology.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	wake := f.Wake()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	note := time.AfterFunc(silence, func() {
		fmt.Fprintf(os.Stderr, "waiting up to %s for %s: %s\n", patience, who, missing())
	})
	defer note.Stop()
	select {
	case <-wake:
		s, _ := f.Get()
		if s.Partial {
			fmt.Fprintf(os.Stderr, "note: %s serves from its last good state; Services that the node did not use then are missing here\n", who)
		}
		return s, nil
	case err := <-ended:
		return nil, errors.Join(fmt.Errorf("%s told no whole state within %s; missing: %s", who, patience, missing()), err)
	}
}

// world is the state as the node sees it.
type world struct {
	snap *topology.Snapshot
	view *topology.View
	opts topology.Options
}

func (in *input) world(ctx context.Context) (*world, error) {
	opts, err := in.opts()
	if err != nil {
		return nil, err
	}
	snap, err := in.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	v := topology.See(snap, in.node, opts)
	if !v.Viewpoint.Known {
		if !in.lenient {
			return nil, fmt.Errorf("%w: %s; %s; with --lenient it is looked at as one without labels", errNoNode, in.node, knownNodes(snap))
		}
		v.Problems = append(v.Problems, topology.Problem{Object: "node " + in.node, Field: "--node", Text: "is not in this state: it reaches no closed Service"})
	}
	return &world{snap, v, opts}, nil
}

var errNoNode = errors.New("this state has no such Node")

// knownNodes names some nodes, to choose --node from.
func knownNodes(s *topology.Snapshot) string {
	const most = 8
	names := s.Nodes.SortedKeys(strings.Compare)
	if len(names) == 0 {
		return "it has none"
	}
	text := "--node may be " + strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" or one of %d more", len(names)-most)
	}
	return text
}

func (w *world) catalog(preloadMax int) *render.Catalog {
	cat, _ := render.NewCataloger(render.Default(), preloadMax).Next(w.view, false)
	return cat
}

// print writes v as the flag says; table is called for people.
func (in *input) print(w io.Writer, v any, table func(io.Writer) error) error {
	var data []byte
	var err error
	switch in.output {
	case "table":
		return table(w)
	case "json", "yaml":
		data, err = yaml.Marshal(v)
		if err == nil && in.output == "json" {
			data, err = yaml.YAMLToJSON(data)
			data = append(data, '\n')
		}
	default:
		return fmt.Errorf("%w: -o %q is not known; use table, json or yaml", run.ErrUsage, in.output)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
