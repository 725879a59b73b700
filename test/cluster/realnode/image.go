package realnode

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
)

// PauseImage holds a pod's namespaces.
const PauseImage = "gridmesh.test/pause:1"

// Image is made of files of this machine.
type Image struct {
	Names      []string          // full ones, as in "docker.io/gridmesh/agent:dev"
	Files      map[string]string // path inside -> path on this machine; libraries come by themselves
	Text       map[string]string // path inside -> content
	Links      map[string]string // path inside -> target
	Entrypoint []string
	Cmd        []string // what the entrypoint is given where a pod has no args
}

// searchPath is where a container looks for programs.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// WriteArchive writes images as "docker save" does, the form that containerd
// imports. Each image is one layer.
func WriteArchive(w io.Writer, images []Image) error {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	out := tar.NewWriter(w)
	var manifest []entry
	for i := range images {
		files, err := images[i].files()
		if err != nil {
			return fmt.Errorf("image %v: %w", images[i].Names, err)
		}
		// Once for its sum, and once more to be written: nothing is kept.
		sum := &counter{hash: sha256.New()}
		if err := writeLayer(sum, files); err != nil {
			return fmt.Errorf("image %v: %w", images[i].Names, err)
		}
		digest := hex.EncodeToString(sum.hash.Sum(nil))
		config, err := images[i].config(digest)
		if err != nil {
			return err
		}
		e := entry{Config: hexSum(config) + ".json", RepoTags: images[i].Names, Layers: []string{digest + ".tar"}}
		if err := put(out, e.Config, config); err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Name: e.Layers[0], Mode: 0o644, Size: sum.n}); err != nil {
			return err
		}
		if err := writeLayer(out, files); err != nil {
			return fmt.Errorf("image %v: %w", images[i].Names, err)
		}
		manifest = append(manifest, e)
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := put(out, "manifest.json", data); err != nil {
		return err
	}
	return out.Close()
}

func (m *Image) config(layer string) ([]byte, error) {
	type object = map[string]any
	return json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": object{"Entrypoint": m.Entrypoint, "Cmd": m.Cmd, "Env": []string{"PATH=" + searchPath}},
		"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + layer}},
	})
}

// file is an entry of a layer: a file of this machine, a text, a link, or a directory.
type file struct {
	inside, outside, text, link string
	dir                         bool
	mode                        int64
}

// files lists a layer's entries, parents before children.
func (m *Image) files() ([]file, error) {
	all := map[string]file{"tmp": {inside: "tmp", dir: true, mode: 0o1777}}
	add := func(f file) {
		f.inside = strings.TrimPrefix(path.Clean(f.inside), "/")
		all[f.inside] = f
		for dir := path.Dir(f.inside); dir != "."; dir = path.Dir(dir) {
			if _, there := all[dir]; !there {
				all[dir] = file{inside: dir, dir: true, mode: 0o755}
			}
		}
	}
	for inside, outside := range m.Files {
		add(file{inside: inside, outside: outside, mode: 0o755})
		libraries, err := libraries(outside)
		if err != nil {
			return nil, err
		}
		for _, lib := range libraries {
			add(file{inside: lib.inside, outside: lib.outside, mode: 0o755})
		}
	}
	for inside, text := range m.Text {
		add(file{inside: inside, text: text, mode: 0o644})
	}
	for inside, target := range m.Links {
		add(file{inside: inside, link: target, mode: 0o777})
	}
	var list []file
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list, nil
}

func writeLayer(w io.Writer, files []file) error {
	out := tar.NewWriter(w)
	for _, f := range files {
		var err error
		switch {
		case f.dir:
			err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.inside + "/", Mode: f.mode})
		case f.link != "":
			err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: f.inside, Linkname: f.link, Mode: f.mode})
		case f.outside != "":
			err = copyFile(out, f)
		default:
			err = put(out, f.inside, []byte(f.text))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.inside, err)
		}
	}
	return out.Close()
}

func copyFile(out *tar.Writer, f file) error {
	in, err := os.Open(f.outside)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: f.inside, Mode: f.mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

func put(out *tar.Writer, name string, data []byte) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := out.Write(data)
	return err
}

// counter sums and counts what is written.
type counter struct {
	hash hash.Hash
	n    int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.hash.Write(b)
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
