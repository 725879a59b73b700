// Command images puts our programs into the images that deploy/ names: an
// archive an image, of all machines that were asked for, as "ctr image import"
// takes it. It builds on nothing, asks no registry, and makes the same bytes of
// the same programs (docs/adr/0012-images-from-nothing.md).
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// image is one of ours. The first of its programs is what it runs.
type image struct {
	name     string
	programs []string
	user     string
	roots    bool // it may be told to ask somebody whose certificate is a public one
}

// The people's command line goes along with who runs where people look.
var images = []image{
	{name: "agent", programs: []string{"gridmesh-agent", "gridmesh"}},
	{name: "controller", programs: []string{"gridmesh-controller", "gridmesh"}, user: "65532:65532"},
	{name: "admission", programs: []string{"gridmesh-admission"}, user: "65532:65532"},
	{name: "health", programs: []string{"gridmesh-health"}, user: "0:0"},
	{name: "dns", programs: []string{"gridmesh-dns"}, roots: true}, // forward . tls://…
}

// request is what is asked for.
type request struct {
	programs   string // a directory for each machine: linux-amd64, linux-arm64
	out        string
	archs      []string
	repository string
	tag        string
	version    string
}

func main() {
	var r request
	archs := flag.String("archs", "amd64,arm64", "machines, separated by commas")
	flag.StringVar(&r.programs, "programs", "bin/images", "where linux-ARCH/ with the programs are")
	flag.StringVar(&r.out, "out", "bin/images", "where the archives go")
	flag.StringVar(&r.repository, "repository", "gridmesh", "what comes before the names of the images")
	flag.StringVar(&r.tag, "tag", "dev", "their tag")
	flag.StringVar(&r.version, "version", "", "of the programs, for the images' labels")
	flag.Parse()
	r.archs = strings.FieldsFunc(*archs, func(c rune) bool { return c == ',' || c == ' ' })
	if err := r.run(); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func (r *request) run() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	layers := map[string]v1.Layer{} // by program: two images have one in common
	for _, m := range images {
		index, err := r.index(m, layers)
		if err != nil {
			return fmt.Errorf("image %s: %w", m.name, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return fmt.Errorf("image %s: %w", m.name, err)
		}
		path := filepath.Join(r.out, m.name+".tar")
		if err := r.write(path, m, index); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Printf("%s %.1f MiB %s@%s\n", path, float64(info.Size())/(1<<20), r.reference(m), digest)
	}
	return nil
}

// reference is the image's whole name: what has no host is Docker's, as
// kubelets and containerd read it.
func (r *request) reference(m image) string {
	repository := strings.Trim(r.repository, "/")
	if host, _, _ := strings.Cut(repository, "/"); !strings.ContainsAny(host, ".:") && host != "localhost" {
		repository = "docker.io/" + repository
	}
	return repository + "/" + m.name + ":" + r.tag
}
