package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	kubefeed "github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// noticeDelay is how long nothing is said about a cluster or an agent that is
// waited for.
const noticeDelay = 2 * time.Second

// reach is where a state comes from, and how the answer is printed.
type reach struct {
	cmd        *cobra.Command
	files      []string
	kubeconfig string
	context    string
	socket     string // of the agent; "" where none is asked
	stateDir   string // of an agent, whose last good state is read; "" for none
	timeout    time.Duration
	output     string
	more       []string // forms of output besides those of all commands
	lenient    bool

	client *kube.Client // once it is used
	kept   *source.State
	read   *source.Input
	status *report.Report // once it was asked for
	origin origin
	noted  map[string]bool
}

// origin is what a state was read from.
type origin uint8

const (
	fromAgent origin = iota // as long as nothing else is found
	fromFiles
	fromCluster
	fromDisk // the last good state of an agent
)

func (r *reach) bindFiles(f *pflag.FlagSet, usage string) {
	f.StringArrayVarP(&r.files, "filename", "f", nil, usage)
	run.Files(f, "filename")
}

func (r *reach) bindCluster(f *pflag.FlagSet, usage string) {
	f.StringVar(&r.kubeconfig, "kubeconfig", "", usage)
	run.Files(f, "kubeconfig")
	f.StringVar(&r.context, "context", "", "context of the kubeconfig (default: its current one)")
	f.DurationVar(&r.timeout, "timeout", 10*time.Second, "how long a cluster or an agent may take to tell its state")
}

// check refuses what cannot be meant, before anything is asked.
func (r *reach) check() error {
	if r.timeout <= 0 {
		return fmt.Errorf("%w: --timeout %s: must be positive, as 10s", run.ErrUsage, r.timeout)
	}
	for _, name := range []string{"kubeconfig", "context", "socket", "status-socket", "state-dir", "node", "namespace", "pod-cidr", "service-cidr", "unit", "unit-key"} {
		if f := r.cmd.Flags().Lookup(name); f != nil && f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return fmt.Errorf("%w: --%s is empty, and what is meant instead may be another one; give it a value, or leave the flag out", run.ErrUsage, name)
		}
	}
	return r.checkOutput()
}

// clusterAsked reports whether a flag names a cluster.
func (r *reach) clusterAsked() bool { return r.kubeconfig != "" || r.context != "" }

// snapshot reads the state from where the flags say: manifests, a cluster, or
// the agent of this node, running or not; where no agent runs, the cluster that
// kubectl would ask.
func (r *reach) snapshot(ctx context.Context) (*topology.Snapshot, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	switch {
	case r.stateDir != "":
		return r.fromDisk()
	case len(r.files) > 0 && r.clusterAsked():
		return nil, fmt.Errorf("%w: -f and --kubeconfig (or --context) exclude each other", run.ErrUsage)
	case len(r.files) > 0:
		r.origin = fromFiles
		in, err := r.manifests()
		if err != nil {
			return nil, err
		}
		return in.Snapshot()
	case r.clusterAsked():
		return r.fromCluster(ctx)
	}
	err := reachable(ctx, r.socket)
	if errors.Is(err, errNoAgent) && !r.cmd.Flags().Changed("socket") {
		if _, none := r.connect(); none == nil {
			r.note("no agent runs here (%s is not there): the cluster is asked", r.socket)
			return r.fromCluster(ctx)
		} else if !errors.Is(none, kube.ErrNoConfig) {
			return nil, none
		} else if os.Getenv("KUBECONFIG") != "" { // people think that they gave one
			err = fmt.Errorf("%w; %w", err, none)
		}
	}
	if err != nil {
		return nil, err
	}
	return r.first(ctx, source.NewSocket(r.socket), "the agent on "+r.socket, func() string {
		return "its state: the agent has none yet, and gridmesh-agent status says why; or the socket is not its feed socket"
	})
}

// fromCluster follows the API server until it has told the whole state.
func (r *reach) fromCluster(ctx context.Context) (*topology.Snapshot, error) {
	r.origin = fromCluster
	client, err := r.connect()
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := client.Ask(asking); err != nil {
		return nil, fmt.Errorf("%w; %s", err, r.elsewhere())
	}
	if err := permitted(asking, client); err != nil {
		return nil, client.Blame(err)
	}
	f := kubefeed.New(client, obs.NewLog(r.cmd.ErrOrStderr(), false), kubefeed.NewMetrics(prometheus.NewRegistry()))
	snap, err := r.first(ctx, f, "the API server", func() string {
		text := "its lists of " + strings.Join(f.Waiting(), ", ")
		h := f.Health()
		for _, why := range append(h.Held, h.Err) {
			if why != "" {
				text += " (" + why + ")"
			}
		}
		return text
	})
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, r.elsewhere())
	}
	return snap, nil
}

// manifests are those of -f. Standard input and pipes are read once, for who
// asks twice.
func (r *reach) manifests() (source.Input, error) {
	if r.read != nil {
		return *r.read, nil
	}
	in := source.Input{Paths: r.files, Texts: map[string][]byte{}}
	for _, path := range r.files {
		if _, twice := in.Texts[path]; twice {
			return in, fmt.Errorf("%w: -f %s is given twice, and can be read once", run.ErrUsage, path)
		}
		switch info, err := os.Stat(path); {
		case path == "":
			return in, fmt.Errorf("%w: -f is empty; give a directory, a file, or - for standard input", run.ErrUsage)
		case err != nil && strings.Contains(path, "://"):
			return in, fmt.Errorf("%w: -f %s is a URL, and files alone are read; say: curl -fsS %s | %s -f -", run.ErrUsage, path, path, r.cmd.CommandPath())
		case path == source.Stdin:
		case err != nil || info.IsDir() || info.Mode().IsRegular():
			continue
		}
		text, err := r.once(r.cmd.Context(), path)
		if err != nil {
			return in, err
		}
		in.Texts[path] = text
	}
	r.read = &in
	r.noteHidden()
	return in, nil
}

// noteHidden says which manifests below -f are not read.
func (r *reach) noteHidden() {
	var hidden []string
	for _, path := range r.files {
		if path != source.Stdin {
			hidden = append(hidden, source.Hidden(path)...)
		}
	}
	if len(hidden) > 0 {
		r.note("manifests in hidden directories are not read: %s; name one with -f to have it read", plan.Short(hidden))
	}
}

// once reads standard input or a pipe, as of -f <(command), until it ends or
// people do not wait: to open a pipe takes as long as nobody writes to it.
func (r *reach) once(ctx context.Context, path string) ([]byte, error) {
	type content struct {
		text []byte
		err  error
	}
	whole := make(chan content, 1)
	go func() {
		from := r.cmd.InOrStdin()
		if path != source.Stdin {
			file, err := os.Open(path)
			if err != nil {
				whole <- content{nil, err}
				return
			}
			defer file.Close()
			from = file
		}
		text, err := io.ReadAll(io.LimitReader(from, source.MaxFile+1))
		whole <- content{text, err}
	}()
	what := nameOf(path)
	note := time.NewTimer(noticeDelay)
	defer note.Stop()
	for {
		select {
		case <-note.C:
			fmt.Fprintf(r.cmd.ErrOrStderr(), "waiting for %s: it is read to its end\n", what)
		case c := <-whole:
			if c.err != nil {
				return nil, fmt.Errorf("read manifests from %s: %w", what, c.err)
			}
			return c.text, nil
		case <-ctx.Done(): // what reads ends with the process
			return nil, fmt.Errorf("ended while it waited for %s: %w", what, ctx.Err())
		}
	}
}

func nameOf(path string) string {
	if path == source.Stdin {
		return "standard input"
	}
	return path
}

var errNoAgent = errors.New("no agent runs here")

// reachable says at once why nothing can come from an agent's socket.
func reachable(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w (%s is not there), and no cluster is given; give -f DIR or --kubeconfig F%s", errNoAgent, socket, orKept())
	case errors.Is(err, syscall.ECONNREFUSED) && !isSocket(socket):
		return fmt.Errorf("%w: --socket %s is no socket; give the agent's, as /run/gridmesh/feed.sock", run.ErrUsage, socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no agent answers on %s, though one did: is gridmesh-agent running on this node? Give -f DIR or --kubeconfig F to do without%s", socket, orKept())
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("you may not open the agent's socket %s; use sudo, or give -f DIR or --kubeconfig F: %w", socket, err)
	}
	return fmt.Errorf("reach the agent of this node: %w", err)
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// clientLog is taken once in a process: client-go's is global, and read by what an earlier
// command has begun.
var clientLog sync.Once

// connect connects once, as kubectl would.
func (r *reach) connect() (_ *kube.Client, err error) {
	if r.client == nil {
		clientLog.Do(func() { kube.LogTo(obs.NewLog(r.cmd.ErrOrStderr(), false)) })
		r.client, err = kube.ConnectPerson(r.kubeconfig, r.context, "gridmesh/"+obs.Version())
	}
	return r.client, err
}

// note tells people something beside the answer in a line, once however often it is found:
// what others wrote begins no line of its own.
func (r *reach) note(format string, args ...any) {
	text := run.Printable(fmt.Sprintf(format, args...), "")
	if r.noted[text] {
		return
	}
	if r.noted == nil {
		r.noted = map[string]bool{}
	}
	r.noted[text] = true
	fmt.Fprintln(r.cmd.ErrOrStderr(), "note:", text)
}

type feed interface {
	Run(ctx context.Context) error
	Get() (*topology.Snapshot, bool)
	Wake() <-chan struct{}
}

// first is the first state of a feed. After a moment people are told what it
// waits for.
func (r *reach) first(ctx context.Context, f feed, who string, missing func() string) (*topology.Snapshot, error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	wake := f.Wake()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	note := time.NewTimer(noticeDelay)
	defer note.Stop()
	for {
		select {
		case <-note.C:
			fmt.Fprintf(r.cmd.ErrOrStderr(), "waiting up to %s for %s: %s\n", r.timeout, who, missing())
		case <-wake:
			s, _ := f.Get()
			if s.Partial {
				r.note("%s serves from its last good state; Services that the node did not use then are missing here", who)
			}
			return s, nil
		case err := <-ended:
			return nil, errors.Join(r.late(whole, who, missing), err)
		case <-ctx.Done(): // what it began may take longer to end
			return nil, r.late(whole, who, missing)
		}
	}
}

// late is why there is no state: nobody told it in time, or people did not wait.
func (r *reach) late(ctx context.Context, who string, missing func() string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ended while it waited for %s: %w", who, err)
	}
	return fmt.Errorf("%s told no whole state within %s (--timeout); missing: %s", who, r.timeout, missing())
}
