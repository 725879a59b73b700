package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/xds"
)

func printBootstrap(w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	out, err := xds.Bootstrap{
		Node: c.node.Node, Socket: c.node.XDSSocket, AdminSocket: c.adminSocket,
		HeapBytes: c.envoyHeapMiB << 20, Mark: c.capture.Own(), HealthPort: c.capture.Ports.Health(),
	}.YAML()
	if err != nil {
		return err
	}
	if c.output != "" && c.output != toStdout {
		return writeOut(c.output, out)
	}
	_, err = w.Write(out)
	return err
}

// How a status is printed: as gridmesh prints, too.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatJSON, formatYAML}

func printStatus(ctx context.Context, w io.Writer, c *config) error {
	r, err := askStatus(ctx, c)
	if err != nil {
		return err
	}
	return writeStatus(w, r, c.format)
}

func askStatus(ctx context.Context, c *config) (*report.Report, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	if !slices.Contains(formats, c.format) {
		return nil, fmt.Errorf("%w: -o %q is not known; use table, json or yaml", run.ErrUsage, c.format)
	}
	r, err := report.Ask(ctx, c.node.StatusSocket)
	return r, unanswered(c, err)
}

// unanswered says why an agent does not tell its status, and the next step, as
// gridmesh says it of its feed.
func unanswered(c *config, err error) error {
	socket, after := c.node.StatusSocket, fmt.Sprintf("its log says why; gridmesh view --state-dir %s has what it kept", c.node.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no agent answers on %s, which is not there: is gridmesh-agent running on this node? If it ended, %s", socket, after)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no agent answers on %s, though one did: is gridmesh-agent running on this node? If it ended, %s", socket, after)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no agent answers on %s, for you may not open it; use sudo", socket)
	}
	return err
}

// What check says of a node that is not well.
var (
	errDegraded = errors.New("degraded")
	errNotAsked = errors.New("unknown")
)

// check reports whether all is well. A line of monitoring is one of standard output,
// whatever it says; what programs read stays as it is there.
func check(cmd *cobra.Command, c *config) error {
	w := cmd.OutOrStdout()
	if c.format != formatJSON && c.format != formatYAML {
		cmd.Root().SetErr(w)
	}
	r, err := askStatus(cmd.Context(), c)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
	}
	if c.format != formatTable {
		if err := writeStatus(w, r, c.format); err != nil {
			return err
		}
	}
	if why := r.Degraded(time.Now()); len(why) > 0 {
		return fmt.Errorf("%w: %s", errDegraded, strings.Join(why, "; "))
	}
	if c.format == formatTable {
		_, err = fmt.Fprintln(w, "gridmesh-agent: ok:", r.Summary())
	}
	return err
}

func writeStatus(w io.Writer, r *report.Report, format string) error {
	switch format {
	case formatJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case formatYAML:
		out, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
		_, err = w.Write(out)
		return err
	default:
		return r.WriteText(w, time.Now())
	}
}

func cleanup(ctx context.Context, w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	if c.stay {
		<-ctx.Done()
		return nil
	}
	if err := errors.Join(hasSysctls(c.procSys), mayAdminister()); err != nil {
		return err
	}
	was, err := wasHere(c)
	if err != nil {
		return err
	}
	kept := recorded(c)
	if err := cleanNode(c, was); err != nil {
		return err
	}
	if !was {
		fmt.Fprintf(w, "nothing of gridmesh was here: no rules in this network, and no files in --state-dir %s; another directory would have to be named\n", c.node.StateDir)
		return nil
	}
	fmt.Fprintln(w, "gridmesh's rules, routes and sysctls are gone from this node; Services are no longer served here")
	if zero := zeroes(c); !kept && len(zero) > 0 {
		fmt.Fprintf(w, "nothing was kept in --state-dir %s of what sysctls were before; that %s is 0 may be of gridmesh: set 1 where it was so\n", c.node.StateDir, strings.Join(zero, " and "))
	}
	return nil
}

// recorded reports whether there may be records of sysctls: files that were lost put
// nothing back, and that is to be said.
func recorded(c *config) bool {
	_, err := atomicfile.Within(diskPatience, func() (os.FileInfo, error) { return os.Lstat(filepath.Join(c.node.StateDir, sysctlDir)) }, nil)
	return !errors.Is(err, fs.ErrNotExist)
}

// zeroes names those sysctls that gridmesh sets to 0, whatever the node's networks
// are called, and that are.
func zeroes(c *config) (list []string) {
	for _, key := range capture.Sysctls() {
		value, err := os.ReadFile(filepath.Join(c.procSys, strings.ReplaceAll(key, ".", "/")))
		if err == nil && strings.TrimSpace(string(value)) == "0" {
			list = append(list, key)
		}
	}
	return list
}

// diskPatience is how long a cleanup waits for the disk of --state-dir, each time.
const diskPatience = 10 * time.Second

// wasHere reports whether there is anything to take away.
func wasHere(c *config) (bool, error) {
	if there, err := capture.Installed(c.capture); there || err != nil {
		return there, err
	}
	there, err := atomicfile.Within(diskPatience, func() (bool, error) {
		for _, name := range append([]string{sysctlDir}, keptFiles...) {
			if _, err := os.Lstat(filepath.Join(c.node.StateDir, name)); err == nil {
				return true, nil
			}
		}
		return false, nil
	}, nil)
	if err != nil {
		return false, fmt.Errorf("no rules of gridmesh are in this network, but --state-dir %s: %w: what is to be put back from there is not known; run this again when it does", c.node.StateDir, err)
	}
	return there, nil
}

// cleanNode takes gridmesh's traces away, while no agent can start. A disk that
// takes nothing more, or hangs, keeps none of them there: the network is locked,
// too. Any other disk is one that --state-dir does not mean: what there is to put
// back, as sysctls, would not be found. One that is not there is not made.
func cleanNode(c *config, was bool) error {
	unlock, err := atomicfile.Within(diskPatience, func() (func(), error) { return lockKept(c.node.StateDir) }, nil)
	switch {
	case err == nil:
		defer unlock()
	case errors.Is(err, fs.ErrNotExist):
		if was {
			return noSuchDir(c)
		}
	case errors.Is(err, node.ErrUnfit):
		return err
	case !statedir.DiskFails(err) && !errors.Is(err, atomicfile.ErrLate):
		return fmt.Errorf("--state-dir %s: %w; give the agent's, as one who may write it: nothing is removed", c.node.StateDir, err)
	}
	err = capture.Cleanup(c.capture, c.host()) // which waits for no disk for long
	if there, _ := capture.Installed(c.capture); errors.Is(err, atomicfile.ErrLate) && !there {
		return notPutBack(c)
	}
	if err != nil || !c.files {
		return err
	}
	_, err = atomicfile.Within(diskPatience, func() (struct{}, error) { return struct{}{}, removeFiles(c) }, nil)
	if errors.Is(err, atomicfile.ErrLate) {
		return fmt.Errorf("rules, routes and sysctls are gone from this node, but --state-dir %s: %w: files are left there; run this again when it does", c.node.StateDir, err)
	}
	return err
}

// notPutBack says what a cleanup has left that a disk keeps waiting: rules and routes
// go first, and then what was written down of sysctls is read.
func notPutBack(c *config) error {
	return fmt.Errorf("rules and routes are gone from this node, and Services are no longer served here, but --state-dir %s: %w: the sysctls that gridmesh has set to 0 stay so, for what they were is written there "+
		"(net.bridge.bridge-nf-call-iptables and -ip6tables, net.ipv4.tcp_early_demux, and send_redirects of the bridges of pods); run this again when it does, or set them", c.node.StateDir, atomicfile.ErrLate)
}

// lockKept is the lock of a state directory that is there.
func lockKept(dir string) (unlock func(), err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return node.Lock(dir)
}

// noSuchDir is why nothing is taken away where there is no state directory but
// rules: an agent that runs, or a name that is not the agent's.
func noSuchDir(c *config) error {
	unlock, err := lockNetwork()
	if err != nil {
		return err
	}
	unlock()
	return fmt.Errorf("--state-dir %s is not there, but rules are, and what is to be put back is in the agent's: give that one, or make the directory where it is lost: nothing is removed", c.node.StateDir)
}
