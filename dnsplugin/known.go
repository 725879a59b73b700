package dnsplugin

import "sync"

// maxKnown is more than the cache of a Corefile holds by default.
const maxKnown = 1 << 14

// known are names that exist by the next plugin's word, and by nobody's here.
// Where it is away they are not denied: a cache in front, which serves what is
// stale, would take the denial for news and forget its good answer.
//
// Names below pod are not among them, for they are passed on: one exists for
// every address, and a pod that asks for all would have the others forgotten.
// It still can where the next plugin has an answer for every name of the zone.
type known struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// set notes whether a name exists. Of more than maxKnown some are forgotten.
func (k *known) set(name string, exists bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !exists {
		delete(k.names, name)
		return
	}
	if k.names == nil {
		k.names = map[string]struct{}{}
	}
	for other := range k.names {
		if len(k.names) < maxKnown {
			break
		}
		delete(k.names, other)
	}
	k.names[name] = struct{}{}
}

func (k *known) has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, is := k.names[name]
	return is
}
