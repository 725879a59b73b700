package plan

import "fmt"

// followed is what changes have led to.
type followed struct {
	written map[string]bool
	chains  map[Pick]bool
	lists   map[List]string
}

// take follows a change in parts of a size.
func (f *followed) take(c *KernelChange, size int) error {
	for gone, come := range c.Parts(size) {
		for e := range sets(*gone) {
			if !f.written[e] {
				return fmt.Errorf("%s removed and not there", e)
			}
			delete(f.written, e)
		}
		for e := range sets(*come) {
			f.written[e] = true
		}
	}
	for _, p := range c.AddPicks {
		f.chains[p] = true
	}
	for _, p := range c.DelPicks {
		delete(f.chains, p)
	}
	for _, r := range c.DelLists {
		delete(f.lists, r.List)
	}
	for _, r := range c.AddLists {
		f.lists[r.List] = fmt.Sprint(r.Of)
	}
	return nil
}
