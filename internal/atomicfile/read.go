package atomicfile

import (
	"bytes"
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
	data, info, err := regular(path, unix.O_NOFOLLOW, most)
	if err != nil {
		return nil, nil, err
	}
	if err := usable(info, most); err != nil { // it may have become another one
		return nil, nil, fmt.Errorf("%s %w", path, err)
	}
	if int64(len(data)) > most {
		return nil, nil, fmt.Errorf("%s %w: it has more than %d bytes", path, ErrOdd, most)
	}
	return data, info, nil
}

// ReadAny returns the content of anybody's file, also behind links, and waits for
// nobody. There is none where info says that it is no regular file, or has more than
// so many bytes; of one that grows meanwhile it is one byte more than that.
func ReadAny(path string, most int64) (data []byte, info fs.FileInfo, err error) {
	return regular(path, 0, most)
}

func regular(path string, flags int, most int64) (data []byte, info fs.FileInfo, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil, info, err
	}
	all := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead)) // and not twice as much again and again
	_, err = all.ReadFrom(io.LimitReader(f, most+1))
	return all.Bytes(), info, err
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

// Aside is where SetAside moves what is at path.
func Aside(path string) string { return path + ".bad" }

// SetAside moves what is at path out of the way, whatever it is, in the place of
// what was set aside before, and returns its new name.
func SetAside(path string) (aside string, err error) {
	aside = Aside(path)
	if err = os.Rename(path, aside); err == nil {
		return aside, nil
	}
	// A directory takes no file's place, nor a file a directory's.
	if os.Remove(aside) == nil {
		err = os.Rename(path, aside)
	}
	return aside, err
}
