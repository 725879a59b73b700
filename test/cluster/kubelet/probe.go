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
		go every(ctx, p, eager, c.try, func(ok bool) {
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
		go every(ctx, p, period(p), c.try, func(ok bool) {
			if !ok {
				c.w.k.log.Info("liveness probe failed; the container is started again", "container", c.spec.Name)
				c.kill()
			}
		})
	}
}

// eager is the pause between two looks at a pod a pod that is not ready yet is looked at: whoever waits
// for it should not wait for the probe. Liveness keeps to its period, or a
// program that takes a while to listen would never get there.
const eager = 100 * time.Millisecond

func seconds(n, least int32) time.Duration { return time.Duration(max(n, least)) * time.Second }

func period(p *corev1.Probe) time.Duration { return seconds(p.PeriodSeconds, 1) }

// every calls verdict when the thresholds are passed; before the first
// success it probes as often as first says.
func every(ctx context.Context, p *corev1.Probe, first time.Duration, try func(context.Context, *corev1.Probe, time.Duration) error, verdict func(ok bool)) {
	select {
	case <-time.After(seconds(p.InitialDelaySeconds, 0)):
	case <-ctx.Done():
		return
	}
	good, bad := int32(0), int32(0)
	wait := first
	for {
		if err := try(ctx, p, seconds(p.TimeoutSeconds, 1)); err == nil {
			good, bad = good+1, 0
			wait = period(p)
		} else {
			good, bad = 0, bad+1
		}
		if good >= max(p.SuccessThreshold, 1) {
			verdict(true)
		}
		if bad >= max(p.FailureThreshold, 1) {
			verdict(false)
			bad = 0
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
