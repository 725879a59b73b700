package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrOdd marks what is no file that Write made: a link, a directory, a pipe, a
// device, or a file of absurd size. It is to be set aside.
var ErrOdd = errors.New("is no file of ours")

// Read returns the content of a file that Write made, of so many bytes at most,
// and what else is known of it. It follows no link and waits for nobody, whatever
// somebody put there: a pipe has no end, and a device may do something when it is
// opened.
func Read(path string, most int64) ([]byte, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := usable(info, most); err != nil {
		return nil, nil, fmt.Errorf("%s %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil { // it may have become another one
		err = usable(info, most)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s %w: it has more than %d bytes", path, ErrOdd, most)
	}
	if err != nil {
		return nil, nil, err
	}
	return data, info, nil
}

func usable(info fs.FileInfo, most int64) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: its mode is %v", ErrOdd, info.Mode())
	case info.Size() > most:
		return fmt.Errorf("%w: it has %d bytes, at most %d are expected", ErrOdd, info.Size(), most)
	}
	return nil
}

// SetAside moves what is at path out of the way, whatever it is, in the place of
// what was set aside before, and returns its new name.
func SetAside(path string) (aside string, err error) {
	aside = path + ".bad"
	if err = os.Rename(path, aside); err == nil {
		return aside, nil
	}
	// A directory takes no file's place, nor a file a directory's.
	if os.Remove(aside) == nil {
		err = os.Rename(path, aside)
	}
	return aside, err
}
