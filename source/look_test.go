package source

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const webIs, otherIs = "web [10.96.0.1] false 1", "other [10.96.0.2] false 1"

// mounted makes a volume of a ConfigMap as a kubelet does: what there is are links to what ..data leads to, which leads to
// a generation of it.
func mounted(t *testing.T, dir, generation string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, generation, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		write(t, filepath.Dir(path), filepath.Base(path), text)
		first, _, _ := strings.Cut(name, "/")
		if err := os.Symlink(filepath.Join("..data", first), filepath.Join(dir, first)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	must(t, os.Symlink(generation, filepath.Join(dir, "..new")))
	must(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
}

// A ConfigMap becomes another one while its files are listed, or read: what was found is of neither, and is looked at again.
func TestAConfigMapChangesInALook(t *testing.T) {
	dir := t.TempDir()
	mounted(t, dir, "..1", map[string]string{"a.yaml": staysOther, "z.yaml": staysWeb})
	d := NewDir(dir)
	must(t, d.refresh())
	before, err := list(dir)
	must(t, err)
	mounted(t, dir, "..2", map[string]string{"a.yaml": staysOther + "---\n" + staysWeb, "z.yaml": "# moved\n"})
	after, err := list(dir)
	must(t, err)
	if mixed := d.read([]file{before[0], after[1]}); d.stands(mixed.files) {
		t.Error("a list of two generations is taken for one that there is")
	}
	if whole := d.read(after); !d.stands(whole.files) {
		t.Error("a list of what there is, is taken for none")
	}
	must(t, d.refresh())
	if got := services(d); !slices.Equal(got, []string{webIs, otherIs}) {
		t.Errorf("in force are %v", got)
	}
}

// A file that goes and comes back in a look was never empty.
func TestAFileIsAwayInALook(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "web.yaml", staysWeb)
	d := NewDir(dir)
	must(t, d.refresh())
	write(t, dir, "web.yaml", staysWeb+"\n")
	listed, err := list(dir)
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "web.yaml")))
	found := d.read(listed)
	write(t, dir, "web.yaml", staysWeb[:40])
	if d.stands(found.files) {
		t.Error("it was there and gone, and what was read is taken for what there is")
	}
	must(t, d.refresh())
	if got := services(d); !slices.Equal(got, []string{webIs}) {
		t.Errorf("in force are %v", got)
	}
}

// Folders that are links: those of a ConfigMap are read, one that leads elsewhere is told, and takes nothing away.
func TestAFolderIsALink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	mounted(t, dir, "..1", map[string]string{"sub/web.yaml": staysWeb, "sub/deep/other.yaml": staysOther})
	d := NewDir(dir)
	must(t, d.refresh())
	if got := services(d); !slices.Equal(got, []string{webIs, otherIs}) || strings.Contains(said(d), "link") {
		t.Errorf("in force are %v: %s", got, said(d))
	}
	must(t, os.Symlink("..", filepath.Join(dir, "..1/sub/round")))
	must(t, d.refresh())
	if got := services(d); !slices.Equal(got, []string{webIs, otherIs}) || !strings.Contains(said(d), "sub/round: cannot be read") {
		t.Errorf("one leads round: in force are %v: %s", got, said(d))
	}
	write(t, elsewhere, "other.yaml", staysOther)
	must(t, os.Remove(filepath.Join(dir, "sub")))
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "sub")))
	must(t, d.refresh())
	if got := services(d); !slices.Equal(got, []string{webIs, otherIs}) || !strings.Contains(said(d), "it is a link to a folder, which is not followed") {
		t.Errorf("led elsewhere: in force are %v: %s", got, said(d))
	}
	must(t, os.Remove(filepath.Join(elsewhere, "other.yaml")))
	must(t, d.refresh())
	if got := services(d); len(got) > 0 || strings.Contains(said(d), "link") {
		t.Errorf("led to what has no manifest: in force are %v: %s", got, said(d))
	}
}

// What editors put beside a file that they have open is no manifest.
func TestFilesOfEditors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "web.yaml", staysWeb)
	write(t, dir, "._web.yaml", "\x00\x05\x16\x07")
	must(t, os.Symlink("me@here.1234", filepath.Join(dir, ".#web.yaml")))
	d := NewDir(dir)
	must(t, d.refresh())
	if p := newest(&d.Snapshots).Problems; len(p) > 0 {
		t.Errorf("problems: %v", p)
	}
}

// A directory that is another one at each look is told after a while, and what was read of it last stays.
func TestADirectoryThatChangesAllTheWhile(t *testing.T) {
	d := NewDir(t.TempDir())
	if begin := time.Now(); d.movesOn(begin) || d.movesOn(begin.Add(movesFor-time.Second)) || !d.movesOn(begin.Add(movesFor)) {
		t.Errorf("it is to be told after %s", movesFor)
	}
}
