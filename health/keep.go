package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// emptyStands is for how long a node is in no unit before that is kept: a Node that is deleted
// to be made anew, a label that was lost for a moment, or an API server that forgot. Who
// starts without a cloud votes by what is kept.
const emptyStands = time.Minute

// keeping keeps the last unit in a file. It may be called by several at once.
type keeping struct {
	file string
	log  logger

	mu    sync.Mutex
	last  *Unit // as it is in the file; nil where nothing is
	timer *time.Timer
	turn  int // of the last that was taken
}

// take keeps a unit: at once, or once it has stood where there are no nodes in it.
func (k *keeping) take(u Unit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
	if len(u.Members) > 0 || k.last == nil || len(k.last.Members) == 0 {
		k.write(u)
		return
	}
	turn := k.turn
	k.timer = time.AfterFunc(emptyStands, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.turn == turn { // nothing was taken, nor has it ended, while this waited
			k.write(u)
		}
	})
}

// end leaves what is not kept yet.
func (k *keeping) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
}

func (k *keeping) stop() {
	k.turn++
	if k.timer != nil {
		k.timer.Stop()
	}
}

func (k *keeping) write(u Unit) {
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
