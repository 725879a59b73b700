package source

import (
	"errors"
	"fmt"
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

// A link to a folder that leads to nothing, or round, takes nothing away; one that is removed does.
func TestALinkToAFolderThatCannotBeRead(t *testing.T) {
	for name, broken := range map[string]func(t *testing.T, dir string){
		"what it leads to is gone": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "..data"))) },
		"it leads to itself": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "sub")))
			must(t, os.Symlink("sub", filepath.Join(dir, "sub")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, memory := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
			mounted(t, dir, "..1", map[string]string{"sub/web.yaml": staysWeb})
			write(t, dir, "other.yaml", staysOther)
			must(t, os.Symlink("nowhere", filepath.Join(dir, "never")))
			d := begun(t, dir, memory)
			broken(t, dir)
			want := func(when string, fault bool, list ...string) {
				t.Helper()
				if got, told := services(d), said(d); !slices.Equal(got, list) || strings.Contains(told, "/sub: cannot be read") != fault || strings.Contains(told, "never") {
					t.Errorf("%s: in force are %v: %s", when, got, told)
				}
			}
			for range 2 {
				must(t, d.refresh())
				want("while it runs", true, webIs, otherIs)
			}
			d.finish()
			d = begun(t, dir, memory)
			want("after a restart", true, webIs, otherIs)
			must(t, os.Remove(filepath.Join(dir, "sub")))
			must(t, d.refresh())
			want("removed", false, otherIs)
			mounted(t, dir, "..2", map[string]string{"sub/web.yaml": staysWeb})
			must(t, d.refresh())
			want("mounted again", false, webIs, otherIs)
		})
	}
}

// What a run before had below a link that leads to nothing is waited for.
func TestALinkToAFolderIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "node.yaml", staysNode)
	must(t, os.Symlink("..data/sub", filepath.Join(dir, "sub")))
	d := NewDir(dir)
	d.begun, d.memory.since = time.Now(), time.Now() // a disk that does not tell what there was
	must(t, d.refresh())
	if _, any := d.Get(); any {
		t.Error("it is told what there is, while what was below the link may still come")
	}
	d.memory.since = time.Time{}
	must(t, d.refresh())
	if _, any := d.Get(); !any || strings.Contains(said(d), "sub") {
		t.Errorf("nothing was below it: %t: %s", any, said(d))
	}
}

// A link that was led to a folder of which it is not known whether it has manifests takes nothing away.
func TestAFolderIsALinkToManyFiles(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, dir, "node.yaml", staysNode)
	mounted(t, dir, "..1", map[string]string{"sub/web.yaml": staysWeb})
	d := NewDir(dir)
	must(t, d.refresh())
	for i := range mostHidden {
		write(t, elsewhere, fmt.Sprint("a", i), "")
	}
	write(t, elsewhere, "z.yaml", staysWeb)
	must(t, os.Remove(filepath.Join(dir, "sub")))
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "sub")))
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "toys"))) // which had none
	for range 2 {
		must(t, d.refresh())
		if got := services(d); !slices.Equal(got, []string{webIs}) || !strings.Contains(said(d), "sub: cannot be read") || strings.Contains(said(d), "toys") {
			t.Errorf("in force are %v: %s", got, said(d))
		}
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
