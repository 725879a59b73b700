package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/cleanup"
)

// readPaths makes every path absolute.
func (c *config) readPaths() error {
	var errs []error
	if info, err := os.Lstat(c.node.HostsFile); err == nil && !info.Mode().IsRegular() {
		if dir, err := os.Stat(c.node.HostsFile); err == nil && dir.IsDir() {
			errs = append(errs, fmt.Errorf("--hosts-file %s is a directory; give a file, as %s", c.node.HostsFile, filepath.Join(c.node.HostsFile, "hosts")))
		} else {
			cure := "give another path"
			if info.Mode().Type() == os.ModeSymlink {
				cure = "give the path of the file behind the link"
			}
			errs = append(errs, fmt.Errorf("--hosts-file %s is no file of its own (its mode is %s), and would be replaced by one; %s", c.node.HostsFile, info.Mode(), cure))
		}
	}
	for _, p := range []struct {
		flag string
		path *string
	}{
		{"--state-dir", &c.node.StateDir},
		{"--xds-socket", &c.node.XDSSocket},
		{"--status-socket", &c.node.StatusSocket},
		{"--feed-socket", &c.node.FeedSocket},
		{"--admin-socket", &c.adminSocket},
		{"--dead-nodes-file", &c.node.DeadNodesFile},
	} {
		if *p.path == "" {
			if p.path == &c.adminSocket { // the others are the node's to refuse, or may be empty
				errs = append(errs, fmt.Errorf("%s %q is no path", p.flag, *p.path))
			}
			continue
		}
		abs, err := filepath.Abs(*p.path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", p.flag, *p.path, err))
			continue
		}
		*p.path = abs
		const sunPath = 107 // bytes of a Unix socket's path
		if strings.HasSuffix(p.flag, "socket") && len(abs) > sunPath {
			errs = append(errs, fmt.Errorf("%s: %s is longer than %d bytes, the kernel's limit", p.flag, abs, sunPath))
		}
	}
	return errors.Join(append(errs, c.usedTwice())...)
}

// usedTwice refuses a path that two flags mean: one would overwrite the other's.
func (c *config) usedTwice() error {
	type use struct{ flag, path string }
	n := &c.node
	uses := []use{
		{"--xds-socket", n.XDSSocket},
		{"--status-socket", n.StatusSocket},
		{"--feed-socket", n.FeedSocket},
		{"--admin-socket", c.adminSocket},
		{"--hosts-file", n.HostsFile},
		{"--dead-nodes-file", n.DeadNodesFile},
		{"--config", c.file},
		{"--kubeconfig", c.kubeconfig},
		{"--manifests", c.manifests},
	}
	if c.output != toStdout {
		uses = append(uses, use{"--output", c.output})
	}
	by := map[string]string{}
	if n.StateDir != "" {
		for _, name := range cleanup.Kept() {
			by[resolved(filepath.Join(n.StateDir, name))] = "--state-dir"
		}
	}
	var errs []error
	for _, u := range uses {
		if u.path == "" {
			continue
		}
		at := resolved(u.path)
		if other, taken := by[at]; taken {
			errs = append(errs, fmt.Errorf("%s %s is a path that %s uses as well; choose another", u.flag, u.path, other))
		}
		by[at] = u.flag
	}
	return errors.Join(errs...)
}

// resolved is an absolute path. Links are not followed: that asks the disk, which
// may hang.
func resolved(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// toStdout is the path that stands for standard output.
const toStdout = "-"

// behind is where a file is that links lead to from a path; false for what is no file,
// and for links of /proc: /dev/stdout is what others have open, whatever its name.
func behind(path string) (string, bool) {
	for range 40 { // as many as the kernel follows
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != os.ModeSymlink {
			return path, err == nil && info.Mode().IsRegular()
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil || strings.HasPrefix(dir, "/proc/") {
			return path, false
		}
		to, err := os.Readlink(path)
		if err != nil {
			return path, false
		}
		if path = to; !filepath.IsAbs(to) {
			path = filepath.Join(dir, to)
		}
	}
	return path, false
}

// writeOut writes what somebody wants to have at a path: a file whole or not at all,
// also behind links. What else is there, as /dev/stdout, is written to: to replace it
// would take it from others.
func writeOut(path string, data []byte) error {
	if _, err := os.Lstat(path); err != nil {
		return atomicfile.Write(path, data)
	}
	if file, ok := behind(path); ok {
		return atomicfile.Write(file, data)
	}
	if there, err := os.Stat(path); err == nil && there.IsDir() {
		return fmt.Errorf("%w: --output %s is a directory; give a file, as %s", run.ErrUsage, path, filepath.Join(path, cleanup.BootstrapFile))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
