package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe runs the container's probes until ctx ends.
func (c *container) probe(ctx context.Context) {
	if p := c.spec.ReadinessProbe; p != nil {
		go c.every(ctx, p, func(ok bool) {
			c.mu.Lock()
			changed := c.ready != ok
			c.ready = ok
			c.mu.Unlock()
			if changed {
				c.w.notify()
			}
		})
	}
	if p := c.spec.LivenessProbe; p != nil {
		go c.every(ctx, p, func(ok bool) {
			if !ok {
				c.w.k.log.Info("liveness probe failed; the container is started again", "container", c.spec.Name)
				c.kill()
			}
		})
	}
}

// every calls verdict when the thresholds are passed.
func (c *container) every(ctx context.Context, p *corev1.Probe, verdict func(ok bool)) {
	seconds := func(n, least int32) time.Duration { return time.Duration(max(n, least)) * time.Second }
	select {
	case <-time.After(seconds(p.InitialDelaySeconds, 0)):
	case <-ctx.Done():
		return
	}
	good, bad := int32(0), int32(0)
	wait := 100 * time.Millisecond // the first answers matter to whoever waits for the pod
	for {
		if err := c.try(ctx, p, seconds(p.TimeoutSeconds, 1)); err == nil {
			good, bad = good+1, 0
			wait = seconds(p.PeriodSeconds, 1)
		} else {
			good, bad = 0, bad+1
		}
		if good >= max(p.SuccessThreshold, 1) {
			verdict(true)
		}
		if bad >= max(p.FailureThreshold, 1) {
			verdict(false)
			bad, wait = 0, seconds(p.PeriodSeconds, 1)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (c *container) try(ctx context.Context, p *corev1.Probe, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return c.w.k.net.host.Dial(ctx, network, addr)
	}
	host := c.w.facts.ips[0]
	switch {
	case p.TCPSocket != nil:
		if p.TCPSocket.Host != "" {
			host = p.TCPSocket.Host
		}
		conn, err := dial(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(c.port(p.TCPSocket.Port))))
		if err == nil {
			err = conn.Close()
		}
		return err
	case p.HTTPGet != nil:
		if p.HTTPGet.Host != "" {
			host = p.HTTPGet.Host
		}
		client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, fmt.Sprint(c.port(p.HTTPGet.Port)))+p.HTTPGet.Path, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode >= 400 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
	}
	return nil
}

func (c *container) port(p intstr.IntOrString) int {
	if p.Type == intstr.Int {
		return p.IntValue()
	}
	for _, port := range c.spec.Ports {
		if port.Name == p.StrVal {
			return int(port.ContainerPort)
		}
	}
	return 0
}
