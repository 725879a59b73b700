package sandbox

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithReader ends this process with exit code 1 where nobody reads its
// output any more. The signal for that does not end the first process of its
// namespaces, and Go then exits with 2, which means other things.
func endWithReader() {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	go func() {
		for range broken { // of a connection, too
			if unread(syscall.Stdout) || unread(syscall.Stderr) {
				os.Exit(1)
			}
		}
	}()
}

// unread reports whether fd is a pipe without a reader.
func unread(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
}
