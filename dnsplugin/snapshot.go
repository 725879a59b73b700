package dnsplugin

import (
	"os"
	"time"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// disk is how the snapshot is read and written.
type disk struct {
	read  func(path string) (*source.State, error)
	write func(k *source.Keeper, st *source.State, now time.Time) error
}

var realDisk = disk{source.ReadState, (*source.Keeper).Write}

// snapshotFile is the snapshot on a disk, which may hang for as long as it likes:
// all is read and written beside the owner. What is there is not written over
// before it was read. Without a path it does nothing.
type snapshotFile struct {
	disk   disk
	keeper *source.Keeper      // a write's while one is on its way
	read   <-chan readSnapshot // nil once that was taken
	wrote  chan error          // what became of a write
	due    <-chan time.Time    // nil: nothing is waited for
	next   *topology.Snapshot  // to be written; nil: nothing is
	now    *topology.Snapshot  // on its way there
	hung   bool                // that was told
}

// readSnapshot is what was read.
type readSnapshot struct {
	state *source.State // nil for none
	at    time.Time     // when it was written
	err   error
}

func openSnapshot(path string, d disk) *snapshotFile {
	if path == "" {
		return &snapshotFile{}
	}
	read := make(chan readSnapshot, 1)
	go func() {
		var r readSnapshot
		if info, err := os.Stat(path); err == nil {
			r.at = info.ModTime()
		}
		r.state, r.err = d.read(path)
		read <- r
	}()
	return &snapshotFile{disk: d, keeper: source.NewKeeper(path, snapshotEvery), read: read, wrote: make(chan error, 1)}
}

// changed has data written, soon.
func (f *snapshotFile) changed(s *topology.Snapshot) {
	f.next = s
	if f.keeper != nil && f.due == nil {
		f.due = time.After(f.keeper.Wait(time.Now()))
	}
}

// write writes what is due. Where what was begun before does not end, it tells so
// once, and is asked for again.
func (f *snapshotFile) write() (hangs bool) {
	f.due = time.After(snapshotEvery)
	if f.read != nil || f.now != nil {
		hangs, f.hung = !f.hung, true
		return hangs
	}
	f.now, f.next = f.next, nil
	state := &source.State{Snapshot: f.now}
	go func() { f.wrote <- f.disk.write(f.keeper, state, time.Now()) }()
	return false
}

// done takes what became of a write. One that failed is tried again.
func (f *snapshotFile) done(err error) {
	if err != nil && f.next == nil {
		f.next = f.now
	}
	f.now, f.due, f.hung = nil, nil, false
	switch {
	case err != nil:
		f.due = time.After(snapshotEvery)
	case f.next != nil:
		f.due = time.After(f.keeper.Wait(time.Now()))
	}
}
