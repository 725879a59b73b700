package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// fromDisk reads what an agent would serve after a restart without a cloud: for
// a node whose agent does not answer, and whose API server is away.
func (r *reach) fromDisk() (*topology.Snapshot, error) {
	if len(r.files) > 0 || r.clusterAsked() || r.cmd.Flags().Changed("socket") {
		return nil, fmt.Errorf("%w: --state-dir excludes -f, --kubeconfig, --context and --socket", run.ErrUsage)
	}
	r.origin = fromDisk
	path := filepath.Join(r.stateDir, source.StateFile)
	info, err := os.Stat(path)
	var st *source.State
	if err == nil {
		st, err = source.LookAtState(path)
	}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("no last good state is in %s: give the agent's --state-dir, most often %s: %w", r.stateDir, stateDir, err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("you may not read the last good state; use sudo: %w", err)
	case err != nil:
		return nil, fmt.Errorf("--state-dir %s: %w", r.stateDir, err)
	}
	r.kept = st
	r.note("this is the last good state, of %s ago: what the agent would serve after a restart without a cloud; Services that the node did not use are missing",
		time.Since(info.ModTime()).Round(time.Second))
	snap := *st.Snapshot
	snap.Partial = true // which the agent that reads it knows as well
	return &snap, nil
}

// noteForce says of a last good state that it need not be in force: after a boot without an
// agent nothing is. What was killed leaves its socket, and its rules. Neither is here of
// another node's.
func (in *input) noteForce(ctx context.Context) {
	if in.origin == fromDisk && in.another(ctx) == "" && errors.Is(reachable(ctx, in.socket), errNoAgent) {
		in.note("no agent runs here (%s is not there): this is what would be with one; nft list table inet gridmesh shows whether any rules are in force", in.socket)
	}
}

// elsewhere is what has a state where a cluster does not tell its own.
func (r *reach) elsewhere() string {
	switch {
	case isSocket(r.socket):
		return "the agent of this node knows a state as well: leave --kubeconfig and --context out"
	case hasKept():
		return "--state-dir " + stateDir + " has what the agent of this node kept"
	}
	return "on a node its agent tells what it knows (--socket), and its disk what it kept (--state-dir, most often " + stateDir + ")"
}

// orKept names the way out where neither agent nor cluster can be had.
func orKept() string {
	if !hasKept() {
		return ""
	}
	return "; --state-dir " + stateDir + " has what it kept"
}

// hasKept reports whether an agent kept a state here, or one may not know.
func hasKept() bool {
	_, err := os.Stat(filepath.Join(stateDir, source.StateFile))
	return !errors.Is(err, os.ErrNotExist)
}
