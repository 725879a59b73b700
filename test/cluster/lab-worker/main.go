// Command lab-worker is what the test cluster itself runs in its namespaces:
// the stand-in for the kubelet, the first process of its containers, real nodes,
// and the programs of two of its images. Nobody calls it by hand.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/kubelet"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

const usage = `usage: lab-worker COMMAND
  kubelet CONFIG       run the pods of one node
  machine CONFIG       be a real node: the first process of its namespaces
  machine-serve CONFIG run containerd and the kubelet of a real node
  left-out             say what tests leave out on this machine, and why
  container-init SPEC  furnish a container and become its program
  app [PORT]           serve as the image of the test's own server does
  resolve NAME...      print what names resolve to by Go's resolver

called nslookup:
  nslookup NAME SERVER ask a server, as busybox's does`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab-worker:", err)
		os.Exit(1)
	}
}

// command is told by the name of the program, or its arguments.
func command(ctx context.Context) error {
	if filepath.Base(os.Args[0]) == "nslookup" {
		return nslookup(ctx, os.Args[1:])
	}
	return run(ctx, os.Args[1:])
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	switch verb, rest := args[0], args[1:]; {
	case verb == "kubelet" && len(rest) == 1:
		cfg, err := kubelet.ReadConfig(rest[0])
		if err != nil {
			return err
		}
		return kubelet.Run(ctx, cfg, obs.NewLog(os.Stderr, false))
	case verb == "machine" && len(rest) == 1:
		cfg, err := realnode.ReadConfig(rest[0])
		if err != nil {
			return err
		}
		return realnode.First(ctx, cfg, "machine-serve", rest[0])
	case verb == "machine-serve" && len(rest) == 1:
		cfg, err := realnode.ReadConfig(rest[0])
		if err != nil {
			return err
		}
		return realnode.Serve(ctx, cfg)
	case verb == "left-out" && len(rest) == 0:
		for _, line := range leftOut() {
			fmt.Println(line)
		}
		return nil
	case verb == "container-init" && len(rest) == 1:
		return kubelet.ContainerInit(rest[0])
	case verb == "app" && len(rest) <= 1:
		return edge.ServeApp(ctx, rest)
	case verb == "resolve":
		resolve(ctx, rest)
		return nil
	default:
		return fmt.Errorf("%q is no command\n%s", args, usage)
	}
}
