package kubelet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// initSpec is what a container's first process makes of its namespaces.
type initSpec struct {
	Root     string            `json:"root"` // an empty directory
	Hostname string            `json:"hostname"`
	Binds    map[string]string `json:"binds"` // path inside -> path outside
	Etc      map[string]string `json:"etc"`   // file -> content
	Dir      string            `json:"dir"`
	Argv     []string          `json:"argv"`
	Env      []string          `json:"env"`
}

// fromHost is shared by every container: programs and libraries.
var fromHost = []string{"/bin", "/sbin", "/usr", "/lib", "/lib64", "/dev", "/sys", "/etc/ssl", "/etc/alternatives"}

// ContainerInit becomes the container that the file describes. It only
// returns on failure.
func ContainerInit(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s initSpec
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	argv0, err := lookPath(s.Argv[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", argv0, syscall.Exec(argv0, s.Argv, s.Env))
}

func (s *initSpec) enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("root", s.Root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, dir := range []string{"proc", "tmp", "etc", "var", "run"} {
		if err := os.MkdirAll(filepath.Join(s.Root, dir), 0o1777); err != nil {
			return err
		}
	}
	for name, text := range s.Etc {
		if err := os.WriteFile(filepath.Join(s.Root, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, dir := range fromHost {
		if err := s.mirror(dir); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", filepath.Join(s.Root, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	inside := make([]string, 0, len(s.Binds))
	for path := range s.Binds {
		inside = append(inside, path)
	}
	sort.Strings(inside) // parents before children
	for _, path := range inside {
		for _, shared := range fromHost {
			if path == shared || strings.HasPrefix(path, shared+"/") {
				return fmt.Errorf("mount %s: below %s, which containers share with this machine; the stand-in cannot do that", path, shared)
			}
		}
		if err := s.bind(s.Binds[path], path); err != nil {
			return err
		}
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return err
		}
	}
	if err := unix.Chroot(s.Root); err != nil {
		return err
	}
	return os.Chdir(s.Dir)
}

// mirror shows a host directory inside, or its symbolic link.
func (s *initSpec) mirror(dir string) error {
	info, err := os.Lstat(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		return os.Symlink(target, filepath.Join(s.Root, dir))
	}
	return s.bind(dir, dir)
}

func (s *initSpec) bind(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	target := filepath.Join(s.Root, to)
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else {
		err = touch(target)
	}
	if err != nil {
		return fmt.Errorf("make mount point %s: %w", to, err)
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return nil
}

func touch(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func lookPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range []string{"/app", "/bin", "/usr/local/bin", "/usr/bin", "/sbin", "/usr/sbin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("command %s not found in the container", name)
}
