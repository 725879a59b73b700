package capture

import (
	"fmt"
	"maps"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// taken is what of a change is planned now. What is compared as a whole leaves nobody waiting.
func (k *kernelPath) taken(changed map[string][]plan.KernelFrontend, whole bool) map[string][]plan.KernelFrontend {
	if !whole {
		return k.pace.Take(changed, k.planner, time.Now())
	}
	all := k.pace.All()
	maps.Copy(all, changed)
	return all
}

// takeWaiting writes what has waited for its turn.
func (c *Capture) takeWaiting() (err error) {
	k := c.kernel
	if k.held == synced && k.goal == synced && len(k.pace.Waiting())+len(k.planner.Due()) > 0 {
		err = c.setKernel(nil, false) // whose turn it is
	}
	text := ""
	if waiting := k.pace.Waiting(); len(waiting) > 0 {
		text = fmt.Sprintf("Service %s changes so much, again and again, that its endpoints follow late here, and no other namespace's do: give it fewer ports, addresses or endpoints, or change it less often", of(waiting))
	}
	c.own.set(KernelPace, text)
	return err
}
