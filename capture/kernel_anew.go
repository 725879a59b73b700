package capture

import (
	"errors"
	"iter"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// layKernel is installKernel at the addresses that are known.
func (c *Capture) layKernel() error {
	kept, err := c.kernel.table.install(false)
	if err != nil {
		return err
	}
	if !kept {
		c.kernel.held = unsure
		c.kernel.mayHaveDialled()
		err = c.kernel.fill()
	}
	return errors.Join(err, c.tellAbsent(), c.writeKernel())
}

// fill puts into a table that was made anew what it is to hold, as far as that is known without
// a look at what is there.
func (k *kernelPath) fill() error {
	if k.goal != synced {
		return k.putBack()
	}
	k.held = unsure
	for _, s := range k.planner.Anew() {
		if err := k.table.write(stepsAnew(s.Parts(partOf)), kernelChains{s.Picks, s.Lists}, kernelChains{}); err != nil {
			return err
		}
	}
	k.held = synced
	return nil
}

// stepsAnew are those of elements of which none is there.
func stepsAnew(parts iter.Seq[*plan.KernelElements]) iter.Seq[kernelStep] {
	return func(yield func(kernelStep) bool) {
		for part := range parts {
			if !eachOf(part, func(set, key, value string) bool {
				return yield(kernelStep{set: set, key: key, come: true, value: value})
			}) {
				return
			}
		}
	}
}
