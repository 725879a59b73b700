package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Where things are inside: Go looks for the certificates there.
const (
	binDir   = "usr/local/bin"
	rootsPEM = "etc/ssl/certs/ca-certificates.crt"
)

// index is the image of all machines.
func (r *request) index(m image, layers map[string]v1.Layer) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range r.archs {
		img, err := r.image(m, arch, layers)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// image is the one of a machine: nothing, and a layer a program. No time is in
// it, or the same programs would make another image tomorrow.
func (r *request) image(m image, arch string, layers map[string]v1.Layer) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/" + path.Join(binDir, m.programs[0])},
			Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			User:       m.user,
			Labels: map[string]string{
				"org.opencontainers.image.title":    m.programs[0],
				"org.opencontainers.image.version":  r.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	if m.roots {
		layer, err := layerOf(rootsPEM, 0o644, publicRoots())
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	for _, program := range m.programs {
		file := filepath.Join(r.programs, "linux-"+arch, program)
		if layers[file] == nil {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if layers[file], err = layerOf(path.Join(binDir, program), 0o755, data); err != nil {
				return nil, err
			}
		}
		if img, err = mutate.AppendLayers(img, layers[file]); err != nil {
			return nil, err
		}
	}
	return img, nil
}

// layerOf is a layer of one file and the directories above it.
func layerOf(name string, mode int64, data []byte) (v1.Layer, error) {
	var buf bytes.Buffer
	out := tar.NewWriter(&buf)
	for i, c := range name {
		if c == '/' {
			if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[:i+1], Mode: 0o755}); err != nil {
				return nil, err
			}
		}
	}
	if err := put(out, name, mode, data); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func put(out *tar.Writer, name string, mode int64, data []byte) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := out.Write(data)
	return err
}

// publicRoots are the authorities that browsers trust, but for those of which
// only some certificates count: a file cannot say which.
func publicRoots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return out.Bytes()
}
