package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

// builtImages are the archives of "make images". A real container has no loader
// for the race detector's programs, so the programs in them are the static ones.
func builtImages() ([]string, error) {
	if err := realnode.Missing(); err != nil {
		return nil, fmt.Errorf("real nodes: %w", err)
	}
	bin := filepath.Join(edge.Root(), "bin")
	if err := staleImages(bin); err != nil {
		return nil, fmt.Errorf("images for real nodes: %w: run make build images in %s", err, edge.Root())
	}
	var archives []string
	for _, name := range []string{"agent", "controller", "dns", "admission", "health"} {
		archives = append(archives, filepath.Join(bin, "images", name+".tar"))
	}
	return archives, nil
}

// staleImages says where images are missing, or are of other programs than
// those in bin: a test would be of what was.
func staleImages(bin string) error {
	for _, program := range []string{"gridmesh", "gridmesh-agent", "gridmesh-controller", "gridmesh-dns", "gridmesh-admission", "gridmesh-health"} {
		mine, err := os.ReadFile(filepath.Join(bin, program))
		if err != nil {
			return err
		}
		theirs, err := os.ReadFile(filepath.Join(bin, "images", "linux-"+runtime.GOARCH, program))
		if err != nil {
			return err
		}
		if !bytes.Equal(mine, theirs) {
			return fmt.Errorf("they have another %s than bin/", program)
		}
	}
	return nil
}

// otherImages stand for what others publish, under the names that pods have.
func (c *Cluster) otherImages() []realnode.Image {
	bin := func(name string) string { return filepath.Join(edge.Root(), "bin", name) }
	of := func(name, image string, args ...string) realnode.Image {
		inside := "/usr/local/bin/" + name
		return realnode.Image{Names: []string{image}, Files: map[string]string{inside: bin(name)}, Entrypoint: append([]string{inside}, args...)}
	}
	envoy := of("envoy-entrypoint", "docker.io/envoyproxy/envoy:v1.40.0")
	envoy.Files["/usr/local/bin/envoy"] = bin("envoy")
	envoy.Text = map[string]string{"/etc/passwd": "root:x:0:0::/root:/bin/sh\nenvoy:x:101:101::/:/bin/sh\n"}
	return append([]realnode.Image{
		of("pause", realnode.PauseImage),
		of("lab-worker", AppImage+":1", "app"),
		of("kube-proxy", KubeProxyImage),
		envoy,
	}, c.cfg.RealImages...)
}

func (c *Cluster) standIns() string { return filepath.Join(c.dir, "images.tar") }

// writeStandIns makes the archive of them that every real node reads.
func (c *Cluster) writeStandIns() error {
	f, err := os.Create(c.standIns())
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := realnode.WriteArchive(w, c.otherImages()); err != nil {
		return fmt.Errorf("images for real nodes: %w", err)
	}
	return w.Flush()
}

// dropStandIns removes it once every real node has read it.
func (c *Cluster) dropStandIns() error {
	if err := os.Remove(c.standIns()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
