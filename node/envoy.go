package node

import (
	"context"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/node/preload"
)

const (
	// askEnvoyPause is between two questions at least, whoever wants to know.
	askEnvoyPause = time.Second
	// statusWaits is how long a status waits for an answer.
	statusWaits = 2 * time.Second
)

// followEnvoy asks Envoy again and again. That it is not there is no news: the
// health says so.
func (a *Agent) followEnvoy(ctx context.Context) error {
	asker, said := envoy.NewAsker(a.parts.Envoy), saidOfEnvoy{}
	ask := asker.Look
	for {
		if look := ask(ctx, a.inForce.Load()); look != nil {
			a.envoy.Publish(look)
			a.tellOfEnvoy(look, &said)
		}
		if !run.Pause(ctx, askEnvoyPause) {
			return nil
		}
		select {
		case <-a.askEnvoy:
			ask = asker.LookClosely
		case <-time.After(jitter(preload.LookEvery)):
			ask = asker.Look
		case <-ctx.Done():
			return nil
		}
	}
}

// saidOfEnvoy is what was said of it, and may have to be said again.
type saidOfEnvoy struct {
	full    quiet.Line
	failing bool
}

// tellOfEnvoy logs what is wrong with Envoy.
func (a *Agent) tellOfEnvoy(look *envoy.Look, said *saidOfEnvoy) {
	switch {
	case look.Err == nil:
		said.failing = false
		if look.Load.Full() {
			said.full.Say(a.log.Warn, "Envoy takes no more connections: "+look.Load.Why()+"; status says how many are open")
		}
	case len(a.xds.Streams()) == 0: // it is not there
	case !said.failing:
		said.failing = true
		a.log.Warn("Envoy is connected, but its admin socket gives no answer: what it ejects and what is in use is unknown", obs.KeyErr, look.Err)
	}
}

// lookAtEnvoy has Envoy asked, and waits a moment for what it says.
func (a *Agent) lookAtEnvoy(ctx context.Context) {
	if a.parts.Envoy == nil {
		return
	}
	wake := a.envoy.Wake()
	defer a.envoy.Forget(wake)
	select {
	case <-wake: // what is known already
	default:
	}
	fill(a.askEnvoy)
	select {
	case <-wake:
	case <-time.After(statusWaits):
	case <-ctx.Done():
	}
}
