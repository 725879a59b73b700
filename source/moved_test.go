package source

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What is wrong in a place that it was moved to stays as it was before, and a wrong copy takes nothing from one
// that is right. Of what is right again, or removed, nothing stays.
func TestWhatIsMovedStays(t *testing.T) {
	const web, other = "web [10.96.0.1] false 1", "other [10.96.0.2] false 1"
	wrong := strings.Replace(staysWeb, "port: 80", "port: 99999", 1)
	begin := map[string]string{"a.yaml": staysWeb, "b.yaml": staysOther}
	for name, tc := range map[string]struct {
		next map[string]string // nothing: removed
		want []string
		told string
	}{
		"renamed and torn":                    {map[string]string{"a.yaml": "", "c.yaml": staysWeb[:40]}, []string{web, other}, "and is left out: yaml: line 1: did not find expected ',' or '}'; what was in files that went as it came stays until it is corrected"},
		"renamed and wrong":                   {map[string]string{"a.yaml": "", "c.yaml": wrong}, []string{web, other}, "c.yaml document 1): spec.ports[0].port: is not in force, and the object stays"},
		"moved to another and wrong":          {map[string]string{"a.yaml": "", "b.yaml": staysOther + "---\n" + wrong}, []string{web, other}, "b.yaml document 2): spec.ports[0].port: is not in force, and the object stays"},
		"moved to another, and torn there":    {map[string]string{"a.yaml": "", "b.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: other}\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n"}, []string{web, other}, "kind occurs twice"},
		"moved to a new file, and torn there": {map[string]string{"b.yaml": "# empty\n", "c.yaml": staysOther[:len(staysOther)-9]}, []string{web, other}, "c.yaml document 1"},
		"removed as another is torn":          {map[string]string{"a.yaml": "", "b.yaml": staysOther[:70]}, []string{other}, "b.yaml document 1: is not in force"},
		"moved and right":                     {map[string]string{"a.yaml": "", "b.yaml": staysOther + "---\n" + staysWeb}, []string{web, other}, ""},
		"a wrong copy":                        {map[string]string{"z.yaml": wrong}, []string{web, other}, "z.yaml document 1): is in file"},
		"a wrong copy in the same file":       {map[string]string{"a.yaml": staysWeb + "---\n" + wrong}, []string{web, other}, "a.yaml document 2): is in file"},
		"a wrong copy before it":              {map[string]string{"0.yaml": wrong}, []string{web, other}, "0.yaml document 1): is in file"},
		"another, wrong":                      {map[string]string{"a.yaml": "", "c.yaml": strings.Replace(wrong, "name: web", "name: new", 1)}, []string{other, "new [10.96.0.1] false 0"}, "99999"},
		"removed":                             {map[string]string{"a.yaml": ""}, []string{other}, ""},
		"a link to nothing":                   {map[string]string{"a.yaml": "-> nowhere"}, []string{web, other}, "leads to nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, memory := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
			for file, text := range begin {
				write(t, dir, file, text)
			}
			steady, first := NewDir(dir), begun(t, dir, memory)
			must(t, steady.refresh())
			first.finish()
			for file, text := range tc.next {
				path := filepath.Join(dir, file)
				if to, link := strings.CutPrefix(text, "-> "); link || text == "" {
					must(t, os.Remove(path))
					if link {
						must(t, os.Symlink(to, path))
					}
					continue
				}
				write(t, dir, file, text)
			}
			must(t, steady.refresh())
			again := begun(t, dir, memory)
			again.finish()
			for when, d := range map[string]*Dir{"while it runs": steady, "after a restart": again, "and another one": begun(t, dir, memory)} {
				if got, want := services(d), slices.Sorted(slices.Values(tc.want)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
					t.Errorf("%s: in force are %v, want %v", when, got, want)
				}
				if got := said(d); !strings.Contains(got, tc.told) {
					t.Errorf("%s: told is\n%s\nwant %q", when, got, tc.told)
				}
			}
			for file, text := range tc.next {
				if text != "" {
					must(t, os.Remove(filepath.Join(dir, file)))
				}
			}
			write(t, dir, "b.yaml", staysOther)
			must(t, steady.refresh())
			if got := services(steady); tc.next["a.yaml"] != "" && !slices.Equal(got, []string{other}) {
				t.Errorf("removed at last: in force are %v", got)
			}
		})
	}
}

// What an API server told, and lingers, stays below what is written to be put over it, in the order that files
// are read in: what is in a folder comes before what is beside it.
func TestWhatLingersIsPutOver(t *testing.T) {
	for base, overlay := range map[string]string{"cluster.yaml": "overlay.yaml", "all/cluster.yaml": "all.yaml"} {
		t.Run(base, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, base)), 0o700))
			write(t, dir, base, strings.Replace(staysWeb, "name: web", "name: web, uid: u", 1))
			write(t, dir, overlay, "{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {topologyKeys: '[\"unit\"]'}}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}\n")
			d, moved := begun(t, dir, filepath.Join(t.TempDir(), ManifestsFile)), filepath.Join(filepath.Dir(base), "base.yaml")
			for range 2 { // and renamed back, torn still
				if got := services(d); !slices.Equal(got, []string{"web [10.96.0.1] true 1"}) {
					t.Errorf("in force are %v", got)
				}
				must(t, os.Remove(filepath.Join(dir, base)))
				write(t, dir, moved, staysWeb[:40])
				must(t, d.refresh())
				if got := services(d); !slices.Equal(got, []string{"web [10.96.0.1] true 1"}) {
					t.Errorf("moved: in force are %v", got)
				}
				must(t, os.Rename(filepath.Join(dir, moved), filepath.Join(dir, base)))
				must(t, d.refresh())
			}
		})
	}
}

// A directory in which files come all the while keeps nobody from beginning when that is over.
func TestADirectoryThatIsBeingFilled(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "0.yaml", staysWeb)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(filepath.Join(dir, strconv.Itoa(n%500)+"x.yaml"), []byte("# "+strconv.Itoa(n)), 0o600)
				_ = os.Remove(filepath.Join(dir, strconv.Itoa((n+250)%500)+"x.yaml"))
			}
		}
	}()
	d := NewDir(dir)
	for range 20 {
		if err := d.refresh(); err != nil {
			t.Errorf("while it is filled: %v", err)
		}
	}
	close(stop)
	<-done
	must(t, d.refresh())
	if got := services(d); len(got) != 1 {
		t.Errorf("when it is, in force are %v", got)
	}
}

// A directory that is empty for a while, as before it is mounted, and comes back with something wrong has that as
// it was; so it is where an agent starts meanwhile.
func TestADirectoryIsEmptyForAWhile(t *testing.T) {
	dir, memory := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
	write(t, dir, "w.yaml", staysWeb)
	steady, d := begun(t, dir, filepath.Join(t.TempDir(), "other")), begun(t, dir, memory)
	d.finish()
	must(t, os.Remove(filepath.Join(dir, "w.yaml")))
	must(t, steady.refresh())
	again := begun(t, dir, memory)
	for _, d := range []*Dir{steady, again} {
		if got := services(d); len(got) > 0 {
			t.Errorf("it is empty, and in force are %v", got)
		}
	}
	again.finish()
	write(t, dir, "w.yaml", staysWeb[:60])
	write(t, dir, "o.yaml", staysOther)
	must(t, errors.Join(steady.refresh(), again.refresh()))
	for _, d := range []*Dir{steady, again, begun(t, dir, memory)} {
		if got := services(d); !slices.Equal(got, []string{"web [10.96.0.1] false 1", "other [10.96.0.2] false 1"}) {
			t.Errorf("it is back, and in force are %v", got)
		}
	}
}

// A folder is renamed while one of its files is torn: what that had stays, and of the others what is removed goes.
func TestAFolderIsRenamedWhileAFileIsTorn(t *testing.T) {
	dir, memory := t.TempDir(), filepath.Join(t.TempDir(), ManifestsFile)
	v1, v2 := filepath.Join(dir, "v1"), filepath.Join(dir, "v2")
	must(t, os.Mkdir(v1, 0o700))
	write(t, v1, "a.yaml", staysWeb)
	write(t, v1, "b.yaml", staysOther)
	steady, d := begun(t, dir, filepath.Join(t.TempDir(), "other")), begun(t, dir, memory)
	want := func(when string, want ...string) {
		t.Helper()
		must(t, errors.Join(steady.refresh(), d.refresh()))
		d.finish()
		d = begun(t, dir, memory)
		for _, d := range []*Dir{steady, d} {
			if got := services(d); !slices.Equal(got, want) {
				t.Errorf("%s: in force are %v, want %v", when, got, want)
			}
		}
	}
	want("at first", "web [10.96.0.1] false 1", "other [10.96.0.2] false 1")
	must(t, os.Rename(v1, v2))
	write(t, v2, "b.yaml", staysOther[:40])
	want("renamed", "web [10.96.0.1] false 1", "other [10.96.0.2] false 1")
	write(t, v2, "a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}")
	want("one is removed", "other [10.96.0.2] false 1")
	must(t, os.Rename(filepath.Join(v2, "b.yaml"), filepath.Join(v2, "c.yaml")))
	want("renamed again", "other [10.96.0.2] false 1")
	write(t, v2, "c.yaml", staysWeb)
	want("corrected", "web [10.96.0.1] false 1")
}

// Two documents without a line between them, and a List whose items are misnamed, are told, and what the file
// had stays.
func TestWhatWouldGoInSilence(t *testing.T) {
	list := "{apiVersion: v1, kind: List, ITEMS: [" + strings.TrimSpace(staysWeb) + "]}\n"
	block := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n"
	for _, tc := range []struct{ whole, wrong, told string }{
		{strings.Replace(list, "ITEMS", "items", 1), strings.Replace(list, "ITEMS", "Items", 1), "Items: is not in force, and all of the file stays as it was before: List has no items"},
		{strings.Replace(list, "ITEMS", "items", 1), strings.Replace(list, "ITEMS", "item", 1), "write items, which seems meant"},
		{block + "---\n" + strings.Replace(block, "web", "x", 1), block + strings.Replace(block, "web", "x", 1), "line 6: kind occurs twice, as in two documents without a line of --- between them"},
		{block, block + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "line 6: kind occurs twice"},
	} {
		dir := t.TempDir()
		write(t, dir, "w.yaml", tc.whole)
		d := NewDir(dir)
		must(t, d.refresh())
		want := services(d)
		write(t, dir, "w.yaml", tc.wrong)
		must(t, d.refresh())
		if got := services(d); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: in force are %v, want %v", tc.told, got, want)
		}
		if got := said(d); !strings.Contains(got, tc.told) {
			t.Errorf("told is\n%s\nwant %q", got, tc.told)
		}
	}
}
