package source

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// looks are how often a directory is looked at that is another one by then each time.
const looks = 3

// errMoving is a directory that was another one each time that it was read.
var errMoving = errors.New("read manifests: files come and go all the while, and no two looks in a row found the same; see who writes there")

// movesFor is for how long it may be so before it is told.
const movesFor = 10 * time.Second

// movesOn reports whether it is so for long.
func (d *Dir) movesOn(now time.Time) bool {
	if d.moving.IsZero() {
		d.moving = now
	}
	return now.Sub(d.moving) >= movesFor
}

// look reads the files of the directory. A link may be led elsewhere meanwhile, and what it led to be
// removed, or a file renamed that was not listed yet: that is no state of either.
func (d *Dir) look() (looked, error) {
	for range looks {
		top, err := filepath.EvalSymlinks(d.path)
		if err != nil {
			return looked{}, fmt.Errorf("read manifests: %w", withPath(d.path, err))
		}
		var now looked
		files, err := listed(d.path, d.had)
		if err == nil {
			now = d.read(files)
		}
		if to, gone := filepath.EvalSymlinks(d.path); gone == nil && to == top && (err != nil || d.stands(now.files)) {
			return now, err
		}
	}
	return looked{}, errMoving
}

// stands reports whether the files that were read are still those that there are, where any is another than before:
// by name, and by what the links of a mounted ConfigMap lead to.
func (d *Dir) stands(files []file) bool {
	if slices.ContainsFunc(files, func(f file) bool { return f.gone }) {
		return false
	}
	if unchanged(files, d.base.files) {
		return true
	}
	again, err := listed(d.path, d.had)
	own := slices.DeleteFunc(slices.Clone(files), func(f file) bool { return f.stays })
	return err == nil && slices.EqualFunc(own, again, func(a, b file) bool { return a.name == b.name && a.is == b.is })
}

// had reports whether there were files below a folder, or may have been, as long as what a run before kept may come.
func (d *Dir) had(folder string) bool {
	return d.memory.unread(time.Now()) || slices.ContainsFunc(d.base.files, func(f file) bool { return f.below(folder) })
}
