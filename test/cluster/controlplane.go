package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

const apiPort = 6443

// server is the API server's real address.
func server() string { return fmt.Sprintf("https://%s:%d", netlab.CloudIP, apiPort) }

// APIServer is the API server's real address.
func (c *Cluster) APIServer() netip.AddrPort { return netip.AddrPortFrom(netlab.CloudIP, apiPort) }

// controlPlane is the cloud's programs.
type controlPlane struct {
	c         *Cluster
	processes map[string]*edge.Process
}

func (p *controlPlane) start(name string, args ...string) error {
	proc, err := edge.Start(p.c.Lab.Cloud, name, append([]string{edge.Binary("kube"), name}, args...)...)
	if err != nil {
		return err
	}
	p.processes[name] = proc
	return nil
}

func (p *controlPlane) up(ctx context.Context) error {
	ca := p.c.pki
	service4, service6 := netlab.ServiceCIDR4.Addr().Next(), netlab.ServiceCIDR6.Addr().Next()
	ips := []net.IP{netlab.CloudIP.AsSlice(), netlab.CloudIP6.AsSlice(), service4.AsSlice(), service6.AsSlice(), net.IPv4(127, 0, 0, 1)}
	if err := errors.Join(
		ca.issue("apiserver", "kube-apiserver", "", ips, []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"}),
		ca.issue("apiserver-kubelet", "kube-apiserver-kubelet-client", "system:masters", nil, nil),
		p.startEtcd(), p.startAPIServer()); err != nil {
		return err
	}
	admin, err := ca.kubeconfig("admin", "admin", "system:masters", server())
	if err != nil {
		return err
	}
	if err := p.c.connect(admin); err != nil {
		return err
	}
	if p.c.cfg.Bare {
		return p.ready(ctx)
	}
	manager, err := ca.kubeconfig("kcm", "system:kube-controller-manager", "", server())
	if err != nil {
		return err
	}
	scheduler, err := ca.kubeconfig("scheduler", "system:kube-scheduler", "", server())
	if err != nil {
		return err
	}
	if err := p.ready(ctx); err != nil {
		return err
	}
	return errors.Join(p.startManager(manager), p.start("kube-scheduler", "--kubeconfig", scheduler, "--leader-elect=false"))
}

func (p *controlPlane) startEtcd() error {
	return p.start("etcd", "--data-dir", filepath.Join(p.c.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
		"--listen-peer-urls", "http://127.0.0.1:2380")
}

func (p *controlPlane) startAPIServer() error {
	ca := p.c.pki
	return p.start("kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379",
		"--advertise-address", netlab.CloudIP.String(), "--bind-address", "0.0.0.0", "--secure-port", fmt.Sprint(apiPort),
		"--tls-cert-file", ca.path("apiserver.crt"), "--tls-private-key-file", ca.path("apiserver.key"), "--client-ca-file", ca.path("ca.crt"),
		"--service-account-key-file", ca.path("sa.pub"), "--service-account-signing-key-file", ca.path("sa.key"),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-cluster-ip-range", netlab.ServiceCIDR4.String()+","+netlab.ServiceCIDR6.String(),
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--allow-privileged=true",
		"--kubelet-client-certificate", ca.path("apiserver-kubelet.crt"), "--kubelet-client-key", ca.path("apiserver-kubelet.key"),
		"--kubelet-certificate-authority", ca.path("ca.crt"), "--kubelet-preferred-address-types", "InternalIP,Hostname")
}

func (p *controlPlane) startManager(kubeconfig string) error {
	ca := p.c.pki
	return p.start("kube-controller-manager", "--kubeconfig", kubeconfig, "--leader-elect=false",
		"--service-account-private-key-file", ca.path("sa.key"), "--root-ca-file", ca.path("ca.crt"), "--use-service-account-credentials=true",
		"--allocate-node-cidrs=false", "--node-monitor-grace-period", cmp.Or(p.c.cfg.NodeGrace, 20*time.Second).String(), "--node-monitor-period=2s",
		"--concurrent-service-endpoint-syncs=10", "--endpointslice-updates-batch-period=0s",
		"--vmodule", "garbagecollector=2") // what it deletes, and which kinds it knows
}

// ControllerManager is Kubernetes' own controllers; nil in a bare cluster.
func (c *Cluster) ControllerManager() *edge.Process {
	return c.cloud.processes["kube-controller-manager"]
}

// ready waits for /readyz.
func (p *controlPlane) ready(ctx context.Context) error {
	for {
		_, err := p.c.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		for name, proc := range p.processes {
			if !proc.Running() {
				return fmt.Errorf("%s ended:\n%s", name, proc.Log())
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w\n%s", err, p.processes["kube-apiserver"].Log())
		}
	}
}

// connect makes the test's own client, which dials from the cloud.
func (c *Cluster) connect(kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.Dial = c.Lab.Cloud.Dial
	cfg.QPS, cfg.Burst = 500, 1000
	c.REST, c.Kubeconfig = cfg, kubeconfig
	c.Kube, err = kubernetes.NewForConfig(cfg)
	return err
}

// RESTConfig is the administrator's connection.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.REST) }

// StopAPIServer ends the API server at once.
func (c *Cluster) StopAPIServer() { c.cloud.processes["kube-apiserver"].Kill() }

// APIServerLog is what the API server logged since its last start, as far as it is kept.
func (c *Cluster) APIServerLog() string { return c.cloud.processes["kube-apiserver"].Log() }

// StartAPIServer starts it again and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.cloud.startAPIServer(); err != nil {
		return err
	}
	return c.cloud.ready(ctx)
}

func mkdir(path string) error { return os.MkdirAll(path, 0o755) }
