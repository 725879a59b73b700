package capture

import (
	"errors"
	"iter"
	"maps"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
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

// anew are the steps of elements in whose place there are none: as in plan.Anew the endpoints that
// give way to first ones come last.
func (m kernelElements) anew() iter.Seq[kernelStep] {
	first, others := maps.Clone(m), kernelElements{}
	for _, name := range bothOf(rules.Slots) {
		delete(first, name)
		for key, value := range m[name] {
			if slotNumber(key)%plan.NearSlot == 0 {
				first.put(name, key, value)
			} else {
				others.put(name, key, value)
			}
		}
	}
	return func(yield func(kernelStep) bool) {
		for _, list := range []kernelElements{first, others} {
			for s := range steps(nil, list) {
				if !yield(s) {
					return
				}
			}
		}
	}
}
