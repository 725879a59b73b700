package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// Of two objects of one name in one file the last counts, and what stays of each is its own: of the
// last what counted before, whatever the other is.
func TestTwoOfAName(t *testing.T) {
	const a, b = "10.96.0.1", "10.96.0.2"
	service := func(ip, port string) string {
		return strings.NewReplacer("10.96.0.1", ip, "port: 80", "port: "+port).Replace(staysWeb)
	}
	live := func(port string) string {
		return strings.Replace(service(a, port), "name: web", "name: web, uid: u", 1)
	}
	for name, tc := range map[string]struct {
		before, now []string
		want        string // the address and the port that count
	}{
		"both are right":                {[]string{service(a, "80")}, []string{service(a, "81"), service(b, "82")}, "[" + b + "] [{ tcp 82 0}]"},
		"the last is refused":           {[]string{service(a, "80"), service(b, "80")}, []string{service(a, "81"), service(b, "99999")}, "[" + b + "] [{ tcp 80 0}]"},
		"the last is left out":          {[]string{service(a, "80"), service(b, "80")}, []string{service(a, "81"), service(b, "http")}, "[" + b + "] [{ tcp 80 0}]"},
		"the first is refused":          {[]string{service(a, "80"), service(b, "80")}, []string{service(a, "99999"), service(b, "82")}, "[" + b + "] [{ tcp 82 0}]"},
		"the first is left out":         {[]string{service(a, "80"), service(b, "80")}, []string{service(a, "http"), service(b, "82")}, "[" + b + "] [{ tcp 82 0}]"},
		"both are":                      {[]string{service(a, "80"), service(b, "80")}, []string{service(a, "http"), service(b, "99999")}, "[" + b + "] [{ tcp 80 0}]"},
		"the first is gone":             {[]string{service(a, "80"), service(b, "80")}, []string{service(b, "http")}, "[" + b + "] [{ tcp 80 0}]"},
		"the last is new and refused":   {[]string{service(a, "80")}, []string{service(a, "81"), service(b, "99999")}, "[" + a + "] [{ tcp 80 0}]"},
		"the last was never right":      {[]string{service(a, "80"), service(b, "http")}, []string{service(a, "81"), service(b, "http")}, "[" + a + "] [{ tcp 81 0}]"},
		"a live one is left out":        {[]string{live("80"), service(b, "81")}, []string{live("http"), service(b, "82")}, "[" + b + "] [{ tcp 82 0}]"},
		"and what is put over it":       {[]string{live("80"), service(b, "81")}, []string{live("http"), service(b, "http")}, "[" + b + "] [{ tcp 81 0}]"},
		"a live one without an address": {[]string{live("80"), service("", "81")}, []string{live("http"), service("", "82")}, "[" + a + "] [{ tcp 82 0}]"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := NewDir(dir)
			for _, docs := range [][]string{tc.before, tc.now} {
				write(t, dir, "m.yaml", strings.Join(docs, "---\n"))
				inForce(t, d)
			}
			e, _ := newest(&d.Snapshots).Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"})
			if got := fmt.Sprint(e.Service.ClusterIPs, e.Service.Ports); got != tc.want {
				t.Errorf("in force is %s, want %s; told is %v", got, tc.want, allTold(newest(&d.Snapshots)))
			}
		})
	}
}

// What is told of an object that stays names where it is written now.
func TestWhatStaysIsToldWhereItIs(t *testing.T) {
	dir := t.TempDir()
	d := NewDir(dir)
	write(t, dir, "m.yaml", staysWeb+"---\n"+staysOther)
	inForce(t, d)
	write(t, dir, "m.yaml", staysOther+"---\n"+strings.Replace(staysWeb, "port: 80", "port: 99999", 1))
	inForce(t, d)
	write(t, dir, "n.yaml", staysWeb)
	inForce(t, d)
	for _, p := range newest(&d.Snapshots).Problems {
		if !strings.Contains(p.String(), "m.yaml document 2") {
			t.Errorf("told is %s", p)
		}
	}
}

// A file that could never be taken apart is followed as far as it can be; what it had, and has no
// more, may be in what cannot be, and stays until the file is whole.
func TestAFileThatWasNeverWhole(t *testing.T) {
	const torn = "---\n{broken\n"
	dir := t.TempDir()
	d := NewDir(dir)
	write(t, dir, "other.yaml", staysOther)
	for _, step := range []struct{ text, want, told string }{
		{staysWeb + torn, "other web", "m.yaml document 2: is no Kubernetes manifest and is left out"},
		{staysNode + torn, "n1 other web", "; what the file had before stays, where it is not in it now"},
		{strings.Replace(staysNode, "n1,", "n2,", 1) + torn + "---\n" + strings.Replace(staysWeb, "port: 80", "port: 99999", 1), "n1 n2 other web", "; what the file had"},
		{"{broken\n", "n1 n2 other web", "m.yaml document 1: is no Kubernetes manifest and is left out"},
		{"", "n1 n2 other web", fileStays + "it is empty"},
		{"a: b\n  c: d\n", "n1 n2 other web", "; what the file had"},
		{staysSlice + "---\n" + staysWeb, "e other web", ""},
		{staysSlice + torn, "e other web", fileStays},
		{staysWeb, "other web", ""},
	} {
		write(t, dir, "m.yaml", step.text)
		for range 2 {
			if got := inForce(t, d); got != step.want {
				t.Errorf("%s: in force are %q, want %q", step.text, got, step.want)
			}
		}
		var all []string
		for _, p := range allTold(newest(&d.Snapshots)) {
			all = append(all, p.String())
			if p.Loss == topology.LostNothing {
				t.Errorf("no loss: %s", p)
			}
		}
		if text := strings.Join(all, "\n"); !strings.Contains(text, step.told) || step.told == "" && text != "" {
			t.Errorf("%s: told is %q, want %q", step.text, text, step.told)
		}
	}
}

// A file that could not be read at first, and cannot be taken apart then, has nothing of before.
func TestAFileThatWasNeverRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	d := NewDir(dir)
	inForce(t, d)
	wantLoss(t, newest(&d.Snapshots), topology.LostNewer, "it is no file")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "m.yaml", staysWeb+"---\n{broken\n")
	if got := inForce(t, d); got != "web" {
		t.Errorf("in force are %q", got)
	}
	wantLoss(t, newest(&d.Snapshots), topology.LostAll, "m.yaml document 2: ")
}
