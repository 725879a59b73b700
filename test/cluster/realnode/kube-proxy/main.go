// Command kube-proxy stands for the program of kube-proxy's image: it runs the
// one that its machine has, in the file system of the machine, which is where
// "kubectl debug node" shows it. The image stays small, and what runs is real.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kube-proxy:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if err := unix.Chroot("/host"); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.Exec(realnode.KubeInside, append([]string{realnode.KubeInside, "kube-proxy"}, args...), os.Environ())
}
