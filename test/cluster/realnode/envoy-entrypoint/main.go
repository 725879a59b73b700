// Command envoy-entrypoint behaves as the entrypoint of Envoy's published
// image: what begins with a dash is given to envoy, and root hands its output
// and itself over to another user unless ENVOY_UID is 0. The manifests of
// deploy/ have to get along with it.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// uid is that of the published image's user envoy.
const uid = 101

func main() {
	argv := os.Args[1:]
	if len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		argv = append([]string{"envoy"}, argv...)
	}
	if err := run(argv); err != nil {
		fmt.Fprintln(os.Stderr, "envoy-entrypoint:", err)
		os.Exit(1)
	}
}

func run(argv []string) error {
	if len(argv) == 0 {
		return errors.New("nothing to run")
	}
	if os.Getuid() == 0 && os.Getenv("ENVOY_UID") != "0" {
		if err := becomeEnvoy(); err != nil {
			return fmt.Errorf("become user %d: %w", uid, err)
		}
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(program, argv, os.Environ())
}

func becomeEnvoy() error {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if err := f.Chown(uid, uid); err != nil {
			return err
		}
	}
	if err := syscall.Setgroups([]int{uid}); err != nil {
		return err
	}
	if err := syscall.Setgid(uid); err != nil {
		return err
	}
	return syscall.Setuid(uid)
}
