package kubelet

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A program that listens after some seconds is not killed by its liveness
// probe before, and is ready as soon as it listens.
func TestProbesOfASlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin := time.Now()
		const listens = 5 * time.Second
		try := func(context.Context, *corev1.Probe, time.Duration) error {
			if time.Since(begin) < listens {
				return errors.New("refused")
			}
			return nil
		}
		p := &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3, SuccessThreshold: 1}
		var ready time.Duration
		go every(ctx, p, eager, try, func(ok bool) {
			if ok && ready == 0 {
				ready = time.Since(begin)
			}
		})
		go every(ctx, p, period(p), try, func(ok bool) {
			if !ok {
				t.Errorf("not alive after %s", time.Since(begin))
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if ready < listens || ready > listens+2*eager {
			t.Errorf("ready after %s", ready)
		}
	})
}

// What ends is not alive any more, after as many periods as its probe says.
func TestLivenessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin := time.Now()
		var dead []time.Duration
		p := &corev1.Probe{PeriodSeconds: 2, FailureThreshold: 3}
		go every(ctx, p, period(p), func(context.Context, *corev1.Probe, time.Duration) error { return net.ErrClosed },
			func(ok bool) { dead = append(dead, time.Since(begin)) })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(dead) != 1 || dead[0] != 4*time.Second {
			t.Errorf("taken for dead after %v, want once after 4s", dead)
		}
	})
}
