package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// emptyStands is for how long a node is in no unit before that is kept: a Node that is deleted
// to be made anew, a label that was lost for a moment, or an API server that forgot. Who
// starts without a cloud votes by what is kept.
const emptyStands = time.Minute

// wordsStand is for how long what the cloud says of nodes waits before it is kept, where the nodes are
// the same: of a unit that is cut each verdict is such a word, and each time the whole unit is written.
const wordsStand = time.Minute

// keeping keeps the last unit in a file. It may be called by several at once.
type keeping struct {
	file string
	log  logger

	mu    sync.Mutex
	last  *Unit // as it is in the file; nil where nothing is
	words *Unit // the same nodes, of which the cloud says something else since
	since time.Time
	timer *time.Timer
	turn  int // of the last that was taken
}

// take keeps a unit: at once, or once it has stood where there are no nodes in it, or where they are
// the ones that are kept.
func (k *keeping) take(u Unit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
	switch {
	case len(u.Members) == 0 && k.last != nil && len(k.last.Members) > 0:
		k.after(emptyStands, u)
	case k.last == nil || !k.last.hasNodesOf(&u):
		k.write(u)
	default:
		if k.words == nil {
			k.since = time.Now()
		}
		k.words = &u
		k.after(max(0, wordsStand-time.Since(k.since)), u)
	}
}

// after keeps a unit in a while, unless another is taken meanwhile. The lock is held.
func (k *keeping) after(wait time.Duration, u Unit) {
	turn := k.turn
	k.timer = time.AfterFunc(wait, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.turn == turn { // nothing was taken, nor has it ended, while this waited
			k.write(u)
		}
	})
}

// hasNodesOf reports whether two units have the same nodes at the same addresses.
func (u *Unit) hasNodesOf(o *Unit) bool {
	return u.Name == o.Name && slices.EqualFunc(u.Members, o.Members, func(a, b Member) bool {
		return a.Name == b.Name && a.UID == b.UID && slices.Equal(a.Addrs, b.Addrs)
	})
}

// end keeps what the cloud said last, and leaves what has not stood.
func (k *keeping) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
	if k.words != nil {
		k.write(*k.words)
	}
}

func (k *keeping) stop() {
	k.turn++
	if k.timer != nil {
		k.timer.Stop()
	}
}

func (k *keeping) write(u Unit) {
	k.words = nil
	if k.last != nil && reflect.DeepEqual(*k.last, u) {
		return
	}
	if err := writeUnit(k.file, u); err != nil {
		k.log.Warn("what is known of the unit was not kept", obs.KeyErr, err)
		return
	}
	k.last = &u
}

// mostKept is of a file that somebody may have written.
const mostKept = 4 << 20

func readUnit(file string) (*Unit, error) {
	if file == "" {
		return nil, nil
	}
	data, _, err := atomicfile.Read(file, mostKept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last unit: %w", err)
	}
	u := &Unit{}
	if err := json.Unmarshal(data, u); err != nil {
		return nil, fmt.Errorf("read the last unit: %s: %w", file, err)
	}
	return u, nil
}

func writeUnit(file string, u Unit) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(u)
	if err == nil && len(data) > mostKept {
		err = fmt.Errorf("its %d nodes take %d bytes, and %d are the most that is read: what was kept before stays", len(u.Members), len(data), mostKept)
	}
	if err == nil {
		err = atomicfile.Write(file, data)
	}
	if err != nil {
		return fmt.Errorf("keep the unit: %w", err)
	}
	return nil
}
