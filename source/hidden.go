package source

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// mostHidden bounds the files and folders in hidden directories that are looked
	// at: tools keep thousands there.
	mostHidden = 1000
	// hiddenHead is how much of a file is looked at.
	hiddenHead = 64 << 10
)

// Hidden are the hidden directories below a path with manifests that are not read for
// that. Of .git, and of what the links of a mounted ConfigMap lead to, everybody
// knows.
func Hidden(path string) (found []string) {
	top, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	left := mostHidden
	_ = filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || !e.IsDir() || p == top || !strings.HasPrefix(e.Name(), "."):
			return nil //nolint:nilerr // it is told where it is read
		case e.Name() != ".git" && !strings.HasPrefix(e.Name(), ".."):
			if holds, _ := holdsManifests(p, &left); holds {
				found = append(found, p)
			}
		}
		return filepath.SkipDir
	})
	return found
}

// holdsManifests reports whether a file below a directory seems to be a manifest, and whether all that is there was
// looked at.
func holdsManifests(dir string, left *int) (holds, all bool) {
	all = true
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if *left--; *left < 0 {
			all = false
			return filepath.SkipAll
		}
		if err != nil {
			all = false
			return nil //nolint:nilerr // what else is there may be one
		}
		if !e.Type().IsRegular() || !isManifest(p) {
			return nil
		}
		head, err := headOf(p)
		if all = all && err == nil; bytes.Contains(head, []byte("apiVersion")) {
			holds = true
			return filepath.SkipAll
		}
		return nil
	})
	return holds, all
}

// isManifest reports whether a file of a directory is read, by its name.
func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// headOf is the beginning of a file, or what can be read of it.
func headOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	return io.ReadAll(io.LimitReader(f, hiddenHead))
}
