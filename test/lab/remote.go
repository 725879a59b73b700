package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// down is the verb that ends a lab.
const down = "down"

// do runs one command of people inside.
func (s *server) do(c *call, args []string) error {
	if len(args) == 0 {
		return usagef("no command")
	}
	verb, rest := args[0], args[1:]
	if verb == down {
		s.stop()
		return nil
	}
	if c.c = s.cluster.Load(); c.c == nil {
		return fmt.Errorf("the lab has been starting for %s; it says \"up\" when it is ready", time.Since(s.begin).Round(time.Second))
	}
	c.keeper = s.keeper // it was there before the cluster was
	switch verb {       // what may take as long as it likes
	case "kubectl":
		return c.kubectl(rest)
	case "exec":
		return c.execute(rest)
	case "grid", "health":
		return c.gridmesh(verb, rest)
	case "names":
		return c.names(rest)
	case "logs":
		return c.logs(&s.mu, rest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch verb {
	case "status":
		return c.status()
	case "cut", "heal":
		return cut(c.c.Lab, verb == "cut", rest)
	case "kill", "start":
		return c.program(verb == "start", rest)
	}
	return usagef("unknown command %q", verb)
}

// names says what nodes or units are called, to who completes a word.
func (c *call) names(args []string) error {
	var list []string
	switch {
	case len(args) == 1 && args[0] == "nodes":
		list = names(c.c)
	case len(args) == 1 && args[0] == "units":
		for _, u := range c.c.Lab.Units {
			list = append(list, u.Name)
		}
	default:
		return usagef("say: nodes, or units")
	}
	_, err := fmt.Fprintln(c.files[1], strings.Join(list, "\n"))
	return err
}

// cut cuts or heals a line.
func cut(lab *netlab.Lab, on bool, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "uplink" && lab.Node(args[1]) != nil:
		return lab.SetNodeUplink(args[1], on)
	case len(args) == 2 && args[0] == "uplink":
		return lab.SetUplink(args[1], on)
	case len(args) == 2 && args[0] == "peers":
		return lab.SetNodePeers(args[1], on)
	case len(args) == 2 && args[0] == "node":
		return lab.SetNode(args[1], on)
	case len(args) == 3 && args[0] == "link":
		return lab.SetLink(args[1], args[2], on)
	}
	return usagef("%q is no line; say: uplink UNIT, uplink NODE, peers NODE, node NODE, or link UNIT UNIT", strings.Join(args, " "))
}

// verb is a command that the lab which runs does.
type verb struct {
	use, short, example string
	// words behind it; most is 0 for those of another program, flags and all
	least, most int
	first       []string // what its first word may be
}

var (
	programs = []string{"agent", "envoy", "dns", "kubelet", kubeProxy, "machine", controllerName}
	lines    = []string{"uplink", "peers", "node", "link"}
	verbs    = []verb{
		{"kill agent|envoy|dns|kubelet|kube-proxy|machine NODE | controller", "End a program at once; machine: a real node as a whole", "  lab kill agent a-1\n  lab kill controller", 1, 2, programs},
		{"start agent|envoy|dns|kubelet|kube-proxy|machine NODE | controller", "Start a program that has ended, or a real node", "  lab start agent a-1\n  lab start controller", 1, 2, programs},
		{"logs agent|envoy|dns|kubelet|kube-proxy NODE | controller", "Print what a program that the lab started has written", "  lab logs agent a-1\n  lab logs controller", 1, 2, slices.DeleteFunc(slices.Clone(programs), func(p string) bool { return p == "machine" })},
		{down, "Stop the cluster that runs, or that starts", "  lab down", 0, 0, nil},
		{"status", "Show nodes, their programs, what they know, and what is cut", "  lab status", 0, 0, nil},
		{"cut uplink UNIT|NODE | peers NODE | node NODE | link UNIT UNIT", "Cut a line: everything on it is dropped in silence; a unit's uplink leads to the cloud, and links to other units stay; a node's leads out of its unit, and peers to the others of that", "  lab cut uplink a\n  lab cut uplink a-1\n  lab cut link a b", 2, 3, lines},
		{"heal uplink UNIT|NODE | peers NODE | node NODE | link UNIT UNIT", "Heal a line", "  lab heal uplink a", 2, 3, lines},
		{"kubectl ...", "Run kubectl as the administrator", "  lab kubectl get nodes -L unit\n  lab kubectl apply -f my-app.yaml", 1, 0, nil},
		{"grid ...", "Run gridmesh grid as the administrator; plan puts its manifests over what the lab has", "  lab grid list -A\n  lab grid plan -f new-till.yaml", 1, 0, nil},
		{"health ...", "Run gridmesh health as the administrator: nodes know no cluster to ask", "  lab health\n  lab health a-1", 0, -1, nil},
		{"exec NODE|[NAMESPACE/]POD [--] COMMAND...", "Run a command on a node, whose agent it finds, or in a pod's network, with its names", "  lab exec a-1 -- curl http://my-app\n  lab exec a-1 gridmesh view", 1, 0, nil},
	}
)

// controllerName is the one program that is no node's.
const controllerName = "controller"

// wordsOf is how many words a command has whose first is that.
func wordsOf(first string) int {
	switch first {
	case "link":
		return 3
	case controllerName:
		return 1
	}
	return 2
}

func (v *verb) name() string {
	name, _, _ := strings.Cut(v.use, " ")
	return name
}

// passed reports whether the words are another program's.
func (v *verb) passed() bool { return v.most < v.least }

// check refuses what no lab has, before one is asked.
func (v *verb) check(args []string) error {
	switch {
	case v.name() == "exec" && len(args) < 2:
		return fmt.Errorf("%w: nothing to run; say: lab %s", run.ErrUsage, v.use)
	case v.passed(), v.most == 0: // the latter are cobra's to refuse
		return nil
	case len(args) < v.least || len(args) > v.most:
		return fmt.Errorf("%w: %d words behind %s; say: lab %s", run.ErrUsage, len(args), v.name(), v.use)
	case len(v.first) > 0 && !slices.Contains(v.first, args[0]):
		return fmt.Errorf("%w: there is no %q; say: lab %s", run.ErrUsage, args[0], v.use)
	case len(args) != wordsOf(args[0]):
		return fmt.Errorf("%w: %d words behind %s %s; say: lab %s", run.ErrUsage, len(args)-1, v.name(), args[0], v.use)
	}
	return nil
}

// complete is what the next word may be, for a shell: what is in the lab, the
// lab that runs knows.
func (v *verb) complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	switch n := len(args); {
	case v.name() == "exec" && n == 0:
		return known("nodes"), none
	case v.passed():
		return nil, cobra.ShellCompDirectiveDefault
	case n == 0:
		return v.first, none
	case n >= wordsOf(args[0]):
		return nil, none
	case args[0] == "uplink", args[0] == "link":
		return known("units"), none
	}
	return known("nodes"), none
}

func remoteCommands() []*cobra.Command {
	var list []*cobra.Command
	for _, v := range verbs {
		cmd := &cobra.Command{
			Use: v.use, Short: v.short, Example: v.example, DisableFlagParsing: v.passed(),
			ValidArgsFunction: v.complete,
			RunE: func(cmd *cobra.Command, args []string) error {
				if v.name() == "exec" && len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
					return cmd.Help()
				}
				if err := v.check(args); err != nil {
					return err
				}
				return remote(cmd.Context(), append([]string{v.name()}, args...))
			},
		}
		switch {
		case v.passed():
		case v.most == 0:
			cmd.Args = cobra.NoArgs
		default:
			cmd.Args = func(_ *cobra.Command, args []string) error { return v.check(args) }
		}
		list = append(list, cmd)
	}
	return list
}
