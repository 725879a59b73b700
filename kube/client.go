package kube

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/gridmesh/gridmesh/convert"
)

// Client is the connection to one API server. The interfaces share its Rate, but
// for Leases and Answers.
type Client struct {
	Typed    kubernetes.Interface // built-in kinds, in protobuf
	Metadata metadata.Interface   // of any kind, without spec and status
	Dynamic  dynamic.Interface    // any kind, unstructured
	// Leases waits for nothing: a leader with much to write would lose its own.
	Leases coordinationclient.LeasesGetter

	unbound rest.Interface // of no rate, for paths

	host    func() string // "https://10.0.0.1:6443"; "" while it is not known
	usable  func() (ever bool, fault error)
	moves   func() int64
	servers func() []netip.Addr
	config  string // who says so: "kubeconfig /etc/gridmesh/kubeconfig"
}

// LogTo sends client-go's own log where ours goes, as debug lines: it writes
// one at every attempt of every watch while an API server is away. What requests
// wait for is said there now and then. It is global and must be called before the
// first Connect.
func LogTo(log *slog.Logger) {
	klog.SetLoggerWithOptions(logr.FromSlogHandler(debugOnly{log.Handler()}))
	logTo.Store(log)
}

// debugOnly makes every record a debug one.
type debugOnly struct{ slog.Handler }

// Enabled implements slog.Handler.
func (d debugOnly) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler. It asks for itself: of errors logr does not.
func (d debugOnly) Handle(ctx context.Context, r slog.Record) error {
	if !d.Enabled(ctx, r.Level) {
		return nil
	}
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

// Rate bounds the requests of a client, of all its interfaces together;
// a QPS of 0 or less does not.
type Rate struct {
	QPS   float32
	Burst int
}

// NodeRate is enough for one node, and little for an API server with many.
func NodeRate() Rate { return Rate{QPS: 20, Burst: 40} }

// Control sets up a socket before it connects, as that of a net.Dialer; nil for nothing.
type Control func(network, address string, conn syscall.RawConn) error

// Options are how a program reaches the API server.
type Options struct {
	Kubeconfig string // "" for in-cluster credentials
	Agent      string // the User-Agent
	Rate       Rate
	Control    Control
	// Check refuses an address of the API server: at once where it is no name, else whenever it leads there. nil for none.
	Check func(netip.Addr) error

	moveWithin time.Duration // how soon watches end where another address is given; 0: movedWithin
}

// Connect reads a kubeconfig ("" for in-cluster credentials), and reads it again where it
// changes. It does not need the API server to answer.
func Connect(kubeconfig, agent string, rate Rate) (*Client, error) {
	c, err := Late(Options{Kubeconfig: kubeconfig, Agent: agent, Rate: rate})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// readIn is how long a disk may take with a configuration at the start.
const readIn = 10 * time.Second

// Late is Connect for who goes on without: there is a client also where the configuration
// cannot be used yet. The error is why, and that of each request until it can be.
func Late(o Options) (*Client, error) {
	by := inCluster
	if o.Kubeconfig != "" {
		by = "kubeconfig " + o.Kubeconfig
	}
	f := &following{path: o.Kubeconfig, by: by, load: o.load, soon: cmp.Or(o.moveWithin, movedWithin)}
	from := &servers{}
	ctx, cancel := context.WithTimeout(context.Background(), readIn)
	defer cancel()
	is, unread := f.target(ctx)
	if f.from = is.to; unread != nil {
		f.from = nowhere
	}
	c, err := connect(&rest.Config{Host: f.from.String(), Transport: &sources{f, from}}, by, o.Agent, o.Rate)
	if err != nil {
		return nil, err
	}
	c.host, c.usable, c.moves, c.servers = f.host, f.usable, f.moves.Load, from.take
	return c, unread
}

// Usable reports whether the configuration could ever be used, and why it cannot be as it is now:
// where it could before, requests go on as it said then.
func (c *Client) Usable() (ever bool, fault error) {
	if c.usable == nil { // it does not change
		return true, nil
	}
	return c.usable()
}

// Moves is how often requests began to go to another address. What was learnt before is perhaps of another
// API server's history, and its versions say nothing to the one that is asked now.
func (c *Client) Moves() int64 {
	if c.moves == nil { // the address does not change
		return 0
	}
	return c.moves()
}

// load reads the configuration as it is now.
func (o *Options) load() (*rest.Config, error) {
	cfg, err := restConfig(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if o.Control != nil || o.Check != nil {
		// But for that as client-go's own.
		cfg.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: o.control}).DialContext
	}
	if ip, ok := hostIP(cfg.Host); ok && o.Check != nil {
		return cfg, o.Check(ip)
	}
	return cfg, nil
}

// control refuses what Check does, for a name leads to another address each time, and sets up the rest.
func (o *Options) control(network, address string, conn syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err == nil && o.Check != nil {
		if err := o.Check(to.Addr().Unmap().WithZone("")); err != nil {
			return err
		}
	}
	if o.Control == nil {
		return nil
	}
	return o.Control(network, address, conn)
}

// inCluster is how messages name those credentials.
const inCluster = "the in-cluster credentials"

// connect uses a configuration; by is how messages name it.
func connect(cfg *rest.Config, by, agent string, rate Rate) (_ *Client, err error) {
	cfg.UserAgent = agent
	cfg.QPS = -1 // else each interface has a limiter of its own
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &patience{next: &progress{next: next}} })
	unbound := rest.CopyConfig(cfg)
	if rate.QPS > 0 {
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(rate.QPS, rate.Burst)
	}
	asJSON := rest.CopyConfig(cfg)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c := &Client{host: func() string { return asked(cfg) }, config: by}
	client, err := rest.HTTPClientFor(cfg) // one connection for all of them
	if err != nil {
		return nil, fmt.Errorf("use %s: %w", by, told(err))
	}
	if c.Typed, err = kubernetes.NewForConfigAndClient(cfg, client); err != nil {
		return nil, fmt.Errorf("use %s: %w", by, told(err))
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(asJSON), client); err != nil {
		return nil, fmt.Errorf("use %s: %w", by, told(err))
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(dynamic.ConfigFor(asJSON), client); err != nil {
		return nil, fmt.Errorf("use %s: %w", by, told(err))
	}
	leases, err := coordinationclient.NewForConfigAndClient(unbound, client)
	if err != nil {
		return nil, fmt.Errorf("use %s: %w", by, told(err))
	}
	c.Leases, c.unbound = leases, leases.RESTClient()
	return c, nil
}

// asked is where a configuration leads: what a server leaves out, as its scheme, is client-go's to say.
func asked(cfg *rest.Config) string {
	to, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil { // which nobody connects by
		return cfg.Host
	}
	return to.String()
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no --kubeconfig is given and no in-cluster credentials are there: %w", err)
		}
		return cfg, nil
	}
	cfg, _, err := load(&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, "", "kubeconfig "+kubeconfig)
	return cfg, err
}

// hostIP is the address of an API server that has no name.
func hostIP(server string) (netip.Addr, bool) {
	u, err := url.Parse(server)
	if err != nil {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return ip.Unmap(), err == nil
}

// OwnNode asks for what an agent has to know of its node.
func (c *Client) OwnNode(ctx context.Context, node string) (convert.OwnNode, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	n, err := c.Typed.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return convert.OwnNode{}, fmt.Errorf("get node %s: %w", node, err)
	}
	return convert.OwnNodeOf(n), nil
}

// Answers asks the API server for its version, which it has at hand: whether it is there. Behind
// what this program has to ask and write besides it would seem away.
func (c *Client) Answers(ctx context.Context) error {
	if err := c.unbound.Get().AbsPath("/version").Do(ctx).Error(); err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	return nil
}

// Has asks the API server whether it knows a resource, of a group's version
// that it has.
func (c *Client) Has(ctx context.Context, r schema.GroupVersionResource) (bool, error) {
	var list metav1.APIResourceList
	err := c.Typed.Discovery().RESTClient().Get().AbsPath("/apis", r.Group, r.Version).Do(ctx).Into(&list)
	if err != nil {
		return false, fmt.Errorf("ask for the resources of %s: %w", r.GroupVersion(), err)
	}
	return slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == r.Resource }), nil
}
