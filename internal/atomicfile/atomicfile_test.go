package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const childEnv = "ATOMICFILE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "writer":
		fmt.Println("up")
		for i := 0; ; i++ {
			if err := Write(os.Args[1], content(i)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	case "full disk":
		signal.Ignore(unix.SIGXFSZ)
		limit := unix.Rlimit{Cur: 10_000, Max: 10_000}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(Write(os.Args[1], make([]byte, 20_000)))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func child(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], path)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	return cmd
}

// content is the i-th whole content, of which no part looks like another's.
func content(i int) []byte {
	return bytes.Repeat([]byte{byte('a' + i%26)}, 50_000+i%26)
}

func whole(data []byte) bool {
	return len(data) >= 50_000 && bytes.Equal(data, content(int(data[0]-'a')))
}

func TestWrite(t *testing.T) {
	was := unix.Umask(0o077)
	defer unix.Umask(was)
	path := filepath.Join(t.TempDir(), "state")
	for _, tc := range []struct {
		write func(string, []byte) error
		data  string
		mode  os.FileMode
	}{{Write, "long enough to be cut", 0o600}, {WriteShared, "short", 0o644}, {Write, "", 0o600}, {WriteShared, "again", 0o644}} {
		if err := tc.write(path, []byte(tc.data)); err != nil {
			t.Fatal(err)
		}
		holds(t, path, tc.data)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != tc.mode {
			t.Errorf("mode %v, %v, want %v", info.Mode(), err, tc.mode)
		}
		alone(t, path)
	}
}

// Who has the old file open goes on reading it.
func TestReadersKeepWhatTheyOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	write2(t, path, "old")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write2(t, path, "newer")
	if data, err := io.ReadAll(f); err != nil || string(data) != "old" {
		t.Errorf("read %q, %v", data, err)
	}
}

// A process is killed while it writes, again and again: the file is whole each
// time, and what was left beside it goes.
func TestKilledWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for i := range 20 {
		cmd := child(t, "writer", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		for data, err := os.ReadFile(path); err != nil || !whole(data); data, err = os.ReadFile(path) {
			if err == nil {
				t.Fatalf("half a file: %d bytes", len(data))
			}
		}
		time.Sleep(time.Duration(i) * 137 * time.Microsecond) // at any point of a write
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if data, err := os.ReadFile(path); err != nil || !whole(data) {
			t.Fatalf("half a file: %d bytes, %v", len(data), err)
		}
	}
	for _, name := range beside(t, path) {
		age(t, filepath.Join(filepath.Dir(path), name))
	}
	write2(t, path, "after all")
	alone(t, path)
}

// What a dead process left goes with a later write, and is never written to:
// somebody else may have made it.
func TestLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	old, young := filepath.Join(filepath.Dir(path), ".state.tmp-1"), filepath.Join(filepath.Dir(path), ".state.tmp-2")
	write2(t, old, "of a dead writer")
	write2(t, young, "of a writer that may live")
	age(t, old)
	write2(t, path, "new")
	if names := beside(t, path); !slices.Equal(names, []string{filepath.Base(young)}) {
		t.Errorf("beside the file are %v", names)
	}
	holds(t, young, "of a writer that may live")
	// A link is removed and not followed.
	victim := filepath.Join(t.TempDir(), "victim")
	write2(t, victim, "precious")
	age(t, victim)
	if err := os.Symlink(victim, old); err != nil {
		t.Fatal(err)
	}
	write2(t, path, "newer")
	holds(t, victim, "precious")
	holds(t, path, "newer")
}

// age makes a file look as if its writer had died long ago.
func age(t *testing.T, path string) {
	t.Helper()
	at := time.Now().Add(-2 * leftoverAge)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				if err := Write(path, content(i)); err != nil {
					t.Error(err)
				}
				if data, err := os.ReadFile(path); err != nil || !whole(data) {
					t.Errorf("half a file: %d bytes, %v", len(data), err)
				}
			}
		})
	}
	wg.Wait()
	alone(t, path)
}

// A disk that takes a part of the new content keeps the old one.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	write2(t, path, "old")
	out, err := child(t, "full disk", path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "replace "+path) || !strings.Contains(string(out), unix.EFBIG.Error()) {
		t.Errorf("%v: %s", err, out)
	}
	holds(t, path, "old")
	alone(t, path)
}

func TestWhatCannotBe(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "no", "state")
	if err := Write(missing, nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "replace "+missing) {
		t.Errorf("error %v", err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, nil); err == nil {
		t.Error("a directory was replaced")
	}
	alone(t, folder)
	if err := SyncDir(filepath.Join(dir, "no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
}

func write2(t *testing.T, path, data string) {
	t.Helper()
	if err := Write(path, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if data, err := os.ReadFile(path); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v, want %q", path, data, err, want)
	}
}

// beside returns the names of what else is in path's directory.
func beside(t *testing.T, path string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == filepath.Base(path) })
}

func alone(t *testing.T, path string) {
	t.Helper()
	if names := beside(t, path); len(names) > 0 {
		t.Errorf("beside %s are %v", path, names)
	}
}
