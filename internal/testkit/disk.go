package testkit

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// HangingDisk mounts a disk on a directory that answers nothing, until back is
// called or the test ends. The test has a network of its own, and so mounts that are
// nobody else's.
func HangingDisk(t testing.TB, path string) (back func()) {
	t.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("A DISK THAT HANGS CANNOT BE HAD HERE: ", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	if err := unix.Mount("none", path, "fuse", 0, options); err != nil {
		_ = device.Close()
		t.Skip("A DISK THAT HANGS CANNOT BE HAD HERE: ", err)
	}
	back = sync.OnceFunc(func() {
		_ = device.Close() // whoever waits gets an error
		_ = unix.Unmount(path, unix.MNT_DETACH)
	})
	t.Cleanup(back)
	return back
}
