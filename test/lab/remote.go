package main

import (
	"fmt"
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
	switch verb { // what may take as long as it likes
	case "kubectl":
		return c.kubectl(rest)
	case "exec":
		return c.execute(rest)
	case "grid":
		return c.grid(rest)
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

// cut cuts or heals a line.
func cut(lab *netlab.Lab, on bool, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "uplink":
		return lab.SetUplink(args[1], on)
	case len(args) == 2 && args[0] == "node":
		return lab.SetNode(args[1], on)
	case len(args) == 3 && args[0] == "link":
		return lab.SetLink(args[1], args[2], on)
	}
	return usagef("%q is no line; say: uplink UNIT, node NODE, or link UNIT UNIT", strings.Join(args, " "))
}

func remoteCommands() []*cobra.Command {
	programs, lines := []string{"agent", "envoy", "dns", "kubelet", "machine"}, []string{"uplink", "node", "link"}
	var list []*cobra.Command
	for _, r := range []struct {
		use, short  string
		least, most int // words behind the verb; most is 0 for those of another program, flags and all
		first       []string
	}{
		{"kill agent|envoy|dns|kubelet|machine NODE", "End a program of a node at once; machine: a real node as a whole", 2, 2, programs},
		{"start agent|envoy|dns|kubelet|machine NODE", "Start a program of a node that has ended, or a real node", 2, 2, programs},
		{down, "Stop the cluster that runs, or that starts", 0, 0, nil},
		{"status", "Show nodes, their programs, what they know, and what is cut", 0, 0, nil},
		{"cut uplink UNIT | node NODE | link UNIT UNIT", "Cut a line: everything on it is dropped in silence", 2, 3, lines},
		{"heal uplink UNIT | node NODE | link UNIT UNIT", "Heal a line", 2, 3, lines},
		{"kubectl ...", "Run kubectl as the administrator", 1, 0, nil},
		{"grid ...", "Run gridmesh grid as the administrator", 1, 0, nil},
		{"exec NODE|[NAMESPACE/]POD [--] COMMAND...", "Run a command on a node or in a pod's network, with its names", 1, 0, nil},
	} {
		verb, _, _ := strings.Cut(r.use, " ")
		passed := r.most < r.least
		cmd := &cobra.Command{
			Use: r.use, Short: r.short, DisableFlagParsing: passed,
			RunE: func(cmd *cobra.Command, args []string) error {
				if verb == "exec" && len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
					return cmd.Help()
				}
				return remote(append([]string{verb}, args...))
			},
			ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveDefault
				}
				return r.first, cobra.ShellCompDirectiveNoFileComp
			},
		}
		switch {
		case passed:
		case r.most == 0:
			cmd.Args = cobra.NoArgs
		default:
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if len(args) < r.least || len(args) > r.most {
					return fmt.Errorf("%w: %d words behind %s; say: lab %s", run.ErrUsage, len(args), verb, r.use)
				}
				return nil
			}
		}
		list = append(list, cmd)
	}
	return list
}
