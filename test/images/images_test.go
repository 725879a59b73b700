package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each program that people are given is in an image, and each image that
// deploy/ names is made, under that name.
func TestImagesAreThoseOfDeploy(t *testing.T) {
	commands, err := os.ReadDir("../../cmd")
	must(t, err)
	for _, c := range commands {
		if !slices.ContainsFunc(images, func(m image) bool { return slices.Contains(m.programs, c.Name()) }) {
			t.Errorf("cmd/%s is in no image", c.Name())
		}
	}
	var want, made []string
	for _, of := range []string{"deploy", "deploy/admission", "deploy/health"} {
		text, err := os.ReadFile(filepath.Join("../..", of, "kustomization.yaml"))
		must(t, err)
		for _, found := range regexp.MustCompile(`newName: (gridmesh/\S+), newTag: (\S+)\}`).FindAllStringSubmatch(string(text), -1) {
			want = append(want, "docker.io/"+found[1]+":"+found[2])
		}
	}
	r := request{repository: "gridmesh", tag: "dev"}
	for _, m := range images {
		made = append(made, r.reference(m))
	}
	slices.Sort(want)
	slices.Sort(made)
	if !slices.Equal(made, want) {
		t.Errorf("made are %q, deploy/ has %q", made, want)
	}
}

func TestNames(t *testing.T) {
	for repository, want := range map[string]string{
		"gridmesh": "docker.io/gridmesh/dns:v1", "shop/mesh": "docker.io/shop/mesh/dns:v1", "registry.example/gridmesh/": "registry.example/gridmesh/dns:v1",
		"localhost/x": "localhost/x/dns:v1", "box:5000/x": "box:5000/x/dns:v1",
	} {
		r := request{repository: repository, tag: "v1"}
		if got := r.reference(image{name: "dns"}); got != want {
			t.Errorf("in %s: %s, want %s", repository, got, want)
		}
	}
}

// madeOf makes the images of programs that are their names, and returns where
// they are. The files differ in all that is not to matter.
func madeOf(t *testing.T, mode os.FileMode, changed time.Time) string {
	t.Helper()
	dir := t.TempDir()
	archs := []string{"amd64", "arm64"}
	for _, m := range images {
		for _, arch := range archs {
			for _, p := range m.programs {
				file := filepath.Join(dir, "linux-"+arch, p)
				must(t, os.MkdirAll(filepath.Dir(file), 0o755))
				must(t, os.WriteFile(file, []byte(p+arch), mode))
				must(t, os.Chtimes(file, changed, changed))
			}
		}
	}
	r := request{programs: dir, out: filepath.Join(dir, "out"), archs: archs, repository: "gridmesh", tag: "dev", version: "v1"}
	must(t, r.run())
	return r.out
}

// The same programs make the same archive, byte by byte, whenever and wherever.
func TestSameProgramsMakeTheSame(t *testing.T) {
	one, two := madeOf(t, 0o755, time.Unix(1, 0)), madeOf(t, 0o600, time.Unix(2e9, 0))
	for _, m := range images {
		a, err := os.ReadFile(filepath.Join(one, m.name+".tar"))
		must(t, err)
		b, err := os.ReadFile(filepath.Join(two, m.name+".tar"))
		must(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("%s is made in two ways", m.name)
		}
	}
	left, err := os.ReadDir(one)
	must(t, err)
	if len(left) != len(images) {
		t.Errorf("left beside the archives: %v", left)
	}
}

// What was made is what OCI says of images, for each machine with that
// machine's programs, as deploy/ runs them.
func TestImagesAreWhole(t *testing.T) {
	out := madeOf(t, 0o755, time.Now())
	for _, m := range images {
		index, annotations := read(t, filepath.Join(out, m.name+".tar"))
		must(t, validate.Index(index))
		if got := annotations["io.containerd.image.name"]; got != "docker.io/gridmesh/"+m.name+":dev" {
			t.Errorf("%s is called %q", m.name, got)
		}
		for _, arch := range []string{"amd64", "arm64"} {
			img := imageOf(t, index, arch)
			config, err := img.ConfigFile()
			must(t, err)
			if config.Architecture != arch || config.Config.User != m.user || config.Config.Entrypoint[0] != "/usr/local/bin/"+m.programs[0] {
				t.Errorf("%s for %s is %+v", m.name, arch, config)
			}
			files := filesOf(t, img)
			for _, p := range m.programs {
				if got := files["usr/local/bin/"+p]; got != p+arch {
					t.Errorf("%s for %s: %s is %q", m.name, arch, p, got)
				}
			}
			if n := strings.Count(files[rootsPEM], "BEGIN CERTIFICATE"); (n > 50) != m.roots {
				t.Errorf("%s for %s has %d certificates", m.name, arch, n)
			}
		}
	}
}

// read unpacks an archive and returns the one image in it, with what names it.
func read(t *testing.T, archive string) (v1.ImageIndex, map[string]string) {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	dir := t.TempDir()
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		data, err := io.ReadAll(in)
		must(t, err)
		must(t, os.WriteFile(path, data, 0o600))
	}
	all, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	manifest, err := all.IndexManifest()
	must(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%s has %d images", archive, len(manifest.Manifests))
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	must(t, err)
	return index, manifest.Manifests[0].Annotations
}

func imageOf(t *testing.T, index v1.ImageIndex, arch string) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	must(t, err)
	for _, d := range manifest.Manifests {
		if d.Platform.OS == "linux" && d.Platform.Architecture == arch {
			img, err := index.Image(d.Digest)
			must(t, err)
			return img
		}
	}
	t.Fatalf("there is none for %s", arch)
	return nil
}

// filesOf is what a container sees.
func filesOf(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	files := map[string]string{}
	all := mutate.Extract(img)
	defer all.Close()
	in := tar.NewReader(all)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		data, err := io.ReadAll(in)
		must(t, err)
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = string(data)
		}
	}
}

// What "make images" made of this checkout it makes of a clone of it elsewhere,
// too: the same digests, for the machine that this is.
func TestAnotherCheckoutMakesTheSame(t *testing.T) {
	const root, made = "../..", "../../bin/images"
	version := ""
	want := map[string]v1.Hash{}
	digest := func(dir, name string) v1.Hash {
		index, _ := read(t, filepath.Join(dir, name+".tar"))
		img := imageOf(t, index, runtime.GOARCH)
		config, err := img.ConfigFile()
		must(t, err)
		version = config.Config.Labels["org.opencontainers.image.version"]
		hash, err := img.Digest()
		must(t, err)
		return hash
	}
	for _, m := range images {
		if _, err := os.Stat(filepath.Join(made, m.name+".tar")); err != nil {
			t.Fatalf("there is nothing to compare with: make images: %v", err)
		}
		want[m.name] = digest(made, m.name)
	}
	clone := cloned(t, root)
	cmd := exec.Command("make", "images", "ARCHS="+runtime.GOARCH, "VERSION="+version)
	cmd.Dir = clone
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); name != "MAKEFLAGS" && name != "MFLAGS" && name != "MAKELEVEL" && name != "MAKEOVERRIDES" {
			cmd.Env = append(cmd.Env, e)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make images: %v:\n%s", err, out)
	}
	for _, m := range images {
		if got := digest(filepath.Join(clone, "bin/images"), m.name); got != want[m.name] {
			t.Errorf("%s of another checkout is %s, of this one %s; where this one's sources changed since: make images", m.name, got, want[m.name])
		}
	}
}

// cloned is a clone of a checkout, with what is not committed there.
func cloned(t *testing.T, root string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "somewhere", "else")
	git := func(args ...string) []string {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		must(t, err)
		return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	}
	git("clone", "--quiet", "--shared", ".", dir)
	for _, name := range git("ls-files", "-z", "--modified", "--others", "--exclude-standard") {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			must(t, os.Remove(filepath.Join(dir, name)))
			continue
		}
		must(t, err)
		info, err := os.Stat(filepath.Join(root, name))
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), data, info.Mode()))
	}
	return dir
}
