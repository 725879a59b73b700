package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// input is what every subcommand needs: a state, a node, and the agent's
// choices that matter to the decision.
type input struct {
	reach
	node       string
	reading    string
	pods       []string
	cidrs      []string
	preloadMax int
	bridgeNF   string
	datapath   string
	dead       []string
}

// feedSocket is where an agent of this machine has its feed; tests look elsewhere.
var feedSocket = "/run/gridmesh/feed.sock"

// stateDir is where such an agent keeps its state; tests look elsewhere.
var stateDir = "/var/lib/gridmesh"

func (in *input) bind(cmd *cobra.Command) {
	host, _ := os.Hostname()
	in.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&in.node, "node", strings.ToLower(host), "look from this node (default: the agent's, running or not, or this host's name)")
	f.Lookup("node").DefValue = ""
	in.bindFiles(f, "directory of manifests, with those below it, or file, or - for standard input; may be given again")
	in.bindLenient(f)
	in.bindCluster(f, "kubeconfig of a cluster; without it, and where no agent runs: $KUBECONFIG, ~/.kube/config, in-cluster credentials")
	f.StringVar(&in.socket, "socket", feedSocket, "feed socket of this node's agent; its status socket is beside it")
	f.StringVar(&in.stateDir, "state-dir", "", "state directory of an agent that does not answer, as "+stateDir+": its last good state")
	run.Files(f, "socket", "state-dir")
	f.StringVar(&in.reading, "topology-keys", "ordered", "reading of several topologyKeys: ordered or union")
	in.bindOutput(f)
	f.StringSliceVar(&in.pods, "pod-cidr", nil, "pod CIDRs of the node, whose sources are kept (default: the Node's, or its agent's)")
	f.StringSliceVar(&in.cidrs, "service-cidr", nil, "ranges of ClusterIPs besides the cluster's own")
	f.StringVar(&in.bridgeNF, "bridge-netfilter", "clear", "clear or keep, as the agent's; with keep, pods of the node count as on a bridge")
	f.StringVar(&in.datapath, "datapath", topology.DatapathAuto.String(), "auto, kernel or envoy, as the agent's (default: its own, where it runs, or auto)")
	f.Lookup("datapath").DefValue = ""
	f.StringSliceVar(&in.dead, "voted-dead", nil, "nodes that the vote of their unit calls dead, as if the cloud were away (default: those that count for the agent)")
	f.IntVar(&in.preloadMax, "preload-max", 500, "most clusters that Envoy holds without being asked")
	choices(cmd, "topology-keys", "ordered", "union")
	choices(cmd, "bridge-netfilter", "clear", "keep")
	choices(cmd, "datapath", "auto", "kernel", "envoy")
	in.completeNodes()
}

func (in *input) opts() (topology.Options, error) {
	reading, err := topology.ParseReading(in.reading)
	if err != nil {
		return topology.Options{}, fmt.Errorf("%w: --topology-keys %w", run.ErrUsage, err)
	}
	path, err := topology.ParseDatapath(in.datapath)
	if err != nil {
		return topology.Options{}, fmt.Errorf("%w: --datapath %w", run.ErrUsage, err)
	}
	return topology.Options{Reading: reading, Outside: true, Datapath: chosen(path)}, nil
}

// chosen is what an agent makes of its --datapath: with envoy there is no other.
func chosen(path topology.Datapath) topology.Datapath {
	if path == topology.DatapathEnvoy {
		return topology.DatapathNone
	}
	return path
}

// capture is what the flags say of the capture, and refuses what cannot be
// meant.
func (in *input) capture() (plan.Config, error) {
	cfg := plan.Default()
	if in.preloadMax < 0 {
		return cfg, fmt.Errorf("%w: --preload-max %d: must not be negative", run.ErrUsage, in.preloadMax)
	}
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

// world is the state as the node sees it.
type world struct {
	snap     *topology.Snapshot
	view     *topology.View
	opts     topology.Options
	catalogs map[int]*render.Catalog           // of the view, by --preload-max; each is made once
	refused  map[topology.Frontend]*refusedUDP // what udpRefused found; nil: nobody asked
	ejected  *ejections                        // nil: nobody was asked
	// Why the kernel serves all, and why it gets the new connections that are Envoy's; ""
	// where it does not.
	allKernel, instead string
}

func (in *input) world(ctx context.Context) (*world, error) {
	opts, err := in.opts()
	if err != nil {
		return nil, err
	}
	if _, err := in.capture(); err != nil { // of a command that does without, too
		return nil, err
	}
	snap, err := in.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if snap, err = in.withDead(snap); err != nil {
		return nil, err
	}
	name := in.agent(ctx).Node
	if in.kept != nil {
		name = in.kept.Node
	}
	if name != "" && !in.cmd.Flags().Changed("node") {
		in.node = name
	}
	in.choosePath(ctx, &opts)
	v := topology.See(snap, in.node, opts)
	if !v.Viewpoint.Known {
		if !in.lenient {
			if cause := besides(snap.Problems); cause != "" { // first what may be why
				fmt.Fprintln(in.cmd.ErrOrStderr(), strings.TrimPrefix(cause, "\n"))
			}
			return nil, fmt.Errorf("%w: %s; %s; with --lenient it is looked at as one without labels", errNoNode, in.node, knownNodes(snap))
		}
		v.Problems = append(v.Problems, topology.Problem{Object: "node " + in.node, Field: "--node", Text: "is not in this state: it reaches no closed Service"})
	}
	w := &world{snap: snap, view: v, opts: opts, catalogs: map[int]*render.Catalog{}}
	agent := in.agent(ctx)
	w.kernelWhy(in, &agent)
	return w, nil
}

var errNoNode = errors.New("this state has no such Node")

// withDead has the nodes of --voted-dead dead.
func (in *input) withDead(snap *topology.Snapshot) (*topology.Snapshot, error) {
	if len(in.dead) == 0 {
		return snap, nil
	}
	for _, name := range in.dead {
		if _, known := snap.Nodes.Get(name); !known {
			return nil, fmt.Errorf("%w: --voted-dead %s: this state has no such Node", run.ErrUsage, name)
		}
	}
	return snap.WithDead(in.dead), nil
}

// knownNodes names some nodes, to choose --node from.
func knownNodes(s *topology.Snapshot) string {
	const most = 8
	names := s.Nodes.SortedKeys(strings.Compare)
	if len(names) == 0 {
		return "it has none: add those of the cluster to -f (kubectl get nodes -o yaml), or ask it (--kubeconfig)"
	}
	text := "--node may be " + strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" or one of %d more", len(names)-most)
	}
	return text
}

func (w *world) catalog(preloadMax int) *render.Catalog {
	cat := w.catalogs[preloadMax]
	if cat == nil {
		cat, _ = render.NewCataloger(render.Default(), preloadMax).Next(w.view, false)
		w.catalogs[preloadMax] = cat
	}
	return cat
}
