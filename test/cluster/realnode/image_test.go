package realnode

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An archive has what containerd looks for, and each layer is what its
// configuration says it is.
func TestArchive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/true\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteArchive(&out, []Image{
		{Names: []string{"gridmesh.test/one:1"}, Files: map[string]string{"/app/program": program}, Entrypoint: []string{"/app/program"}, Cmd: []string{"serve"}},
		{Names: []string{"gridmesh.test/two:1"}, Text: map[string]string{"/etc/passwd": "root:x:0:0::/:/bin/sh\n"}, Links: map[string]string{"/bin": "usr/bin"}},
	}); err != nil {
		t.Fatal(err)
	}
	files := untar(t, out.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 2 || manifest[1].RepoTags[0] != "gridmesh.test/two:1" {
		t.Fatalf("manifest: %+v", manifest)
	}
	for i, want := range []string{"app/ app/program tmp/", "bin etc/ etc/passwd tmp/"} {
		layer := files[manifest[i].Layers[0]]
		var names []string
		for name := range untar(t, layer) {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("layer %d has %s, want %s", i, got, want)
		}
		var config struct {
			Config struct{ Entrypoint, Cmd []string }
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			} `json:"rootfs"`
		}
		if err := json.Unmarshal(files[manifest[i].Config], &config); err != nil {
			t.Fatal(err)
		}
		if c := config.Config; i == 0 && (!slices.Equal(c.Entrypoint, []string{"/app/program"}) || !slices.Equal(c.Cmd, []string{"serve"})) {
			t.Errorf("a pod without args would run %q %q", c.Entrypoint, c.Cmd)
		}
		if want := "sha256:" + hexSum(layer); config.RootFS.DiffIDs[0] != want {
			t.Errorf("layer %d is %s, its configuration says %v", i, want, config.RootFS.DiffIDs)
		}
	}
}

// A program that is linked dynamically comes with its loader and libraries.
func TestLibraries(t *testing.T) {
	list, err := libraries("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range list {
		names = append(names, filepath.Base(l.inside))
		if _, err := os.Stat(l.outside); err != nil {
			t.Error(err)
		}
	}
	if len(list) < 2 || !slices.Contains(names, "libc.so.6") {
		t.Errorf("/bin/sh needs %q", names)
	}
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	in := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}
