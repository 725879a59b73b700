package cleanup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/run"
)

// Left is something that has a name of gridmesh's and was not removed.
type Left struct{ Path, Why string }

// ours says why what is at a path is not gridmesh's; "" where it is.
type ours func(path string, info fs.FileInfo) (why string)

// trace is what gridmesh may have made at a path. A cleanup runs as root: what somebody
// else has there, or a link to it, is his.
type trace struct {
	path string
	ours ours
}

// remove removes it where it is gridmesh's, and else says why not.
func (t trace) remove() (why string, err error) {
	info, err := os.Lstat(t.path)
	if err == nil {
		if why = t.ours(t.path, info); why == "" {
			err = os.Remove(t.path)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return "", nil
	case errors.Is(err, unix.ENOTEMPTY):
		return "it is a directory with something in it", nil
	case err != nil:
		return "", fmt.Errorf("remove what is left of gridmesh: %w", err)
	}
	return why, nil
}

// anyFile is what was set aside, whatever it was, or what a writer left.
func anyFile(string, fs.FileInfo) string { return "" }

func isDir(_ string, info fs.FileInfo) string {
	if !info.IsDir() {
		return fmt.Sprintf("it is no directory (its mode is %s)", info.Mode())
	}
	return ""
}

// isSocket is a socket that a process left which is gone.
func isSocket(path string, info fs.FileInfo) string {
	switch {
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Sprintf("it is no socket (its mode is %s)", info.Mode())
	case run.Listens(path):
		return "somebody listens on it"
	}
	return ""
}

// mostRead bounds what is read of a file to know it.
const mostRead = 64 << 10

// file is a file that begins with what gridmesh writes there, or with nothing: a disk
// that lost what it took leaves files that are empty, or full of NULs.
func file(is func(data []byte) bool) ours {
	return func(path string, info fs.FileInfo) string {
		if !info.Mode().IsRegular() {
			return fmt.Sprintf("it is no file (its mode is %s)", info.Mode())
		}
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Sprintf("it cannot be read: %v", err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, mostRead))
		if err != nil {
			return fmt.Sprintf("it cannot be read: %v", err)
		}
		if !isEmpty(data) && !is(data) {
			return "it is not what gridmesh writes there"
		}
		return ""
	}
}

func isEmpty(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// snapshotMagic is what every snapshot on disk begins with (package source).
const snapshotMagic = "GRIDMESH"

func begins(with string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(with)) }
}

// boot is a line with the kernel's name for a boot, or with none.
var boot = regexp.MustCompile(`^[0-9a-f-]*\n?$`)

func isBoot(data []byte) bool { return boot.Match(data) }

// isBootstrap tells the bootstrap that connects to the socket beside it from others. Their
// directory may have been another one to who wrote it: the host's, seen from a mount.
func (c Config) isBootstrap(data []byte) bool {
	text := string(data)
	return strings.Contains(text, "cluster: gridmesh\n") && strings.Contains(text, "/"+filepath.Base(c.XDSSocket)+"\n")
}
