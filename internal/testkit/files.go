package testkit

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OddFiles put at a path, by what it is, something that is no file to be read to
// its end: whoever finds it in the place of a file of theirs may neither wait for
// it nor fill their memory with it.
var OddFiles = map[string]func(path string) error{
	"a pipe":           func(path string) error { return unix.Mkfifo(path, 0o600) },
	"a link to zeroes": func(path string) error { return os.Symlink("/dev/zero", path) },
	"a directory":      func(path string) error { return os.MkdirAll(filepath.Join(path, "sub"), 0o700) },
	"4 GiB of nothing": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 4<<30)) },
}
