package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// write writes an image with its name as an archive, an OCI image layout.
func (r *request) write(path string, m image, index v1.ImageIndex) (err error) {
	dir, err := os.MkdirTemp(r.out, "layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The first is what containerd and Docker call it, the second what OCI has for a tag.
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          r.reference(m),
		"org.opencontainers.image.ref.name": r.tag,
	})); err != nil {
		return err
	}
	return pack(dir, path)
}

// pack writes a directory as an archive in which no time or owner is. Who has
// read half of it has the one of before.
func pack(dir, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "archive-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // once it has its name there is nothing
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	out := tar.NewWriter(buffered)
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return put(out, name, 0o644, data)
	})
	if err := errors.Join(err, out.Close(), buffered.Flush(), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
