package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

// Bounds of a directory of manifests.
const (
	maxFile  = 64 << 20
	dirPoll  = 250 * time.Millisecond
	maxFault = 200 // characters of a decoder's complaint
)

// Dir reads a directory (or one file) of manifests: Services, EndpointSlices,
// Nodes and ServiceCIDRs; other kinds are passed over. What cannot be read is
// a Problem, the rest goes on.
type Dir struct {
	Snapshots
	path string
	seen string
}

// NewDir reads path on Run.
func NewDir(path string) *Dir { return &Dir{path: path} }

// Run publishes the directory's state and follows its changes until ctx ends.
func (d *Dir) Run(ctx context.Context) error {
	tick := time.NewTicker(dirPoll)
	defer tick.Stop()
	for {
		if err := d.refresh(); err != nil {
			if _, ok := d.Get(); !ok {
				return err
			}
			// Gone for a moment: the last good state stays.
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *Dir) refresh() error {
	files, mark, err := list(d.path)
	if err != nil {
		return err
	}
	if _, ok := d.Get(); ok && mark == d.seen {
		d.Contacted(time.Now())
		return nil
	}
	snap, err := readAll(files)
	if err != nil {
		return err
	}
	d.seen = mark
	d.Contacted(time.Now())
	d.Publish(snap)
	return nil
}

// ReadDir reads a directory once.
func ReadDir(path string) (*topology.Snapshot, error) {
	files, _, err := list(path)
	if err != nil {
		return nil, err
	}
	return readAll(files)
}

// list returns the manifests under path and a mark that changes with them.
func list(path string) (files []string, mark string, err error) {
	var b strings.Builder
	err = filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(p); e.IsDir() || p != path && ext != ".yaml" && ext != ".yml" && ext != ".json" {
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files = append(files, p)
		fmt.Fprintln(&b, p, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("read manifests: %w", err)
	}
	return files, b.String(), nil
}

func readAll(files []string) (*topology.Snapshot, error) {
	r := &reader{b: topology.NewBuilder()}
	for _, f := range files {
		if err := r.file(f); err != nil {
			return nil, err
		}
	}
	r.b.SetServiceCIDRs(r.cidrs)
	r.b.SetProblems(r.problems)
	return r.b.Build(), nil
}

type reader struct {
	b        *topology.Builder
	cidrs    []netip.Prefix
	problems []topology.Problem
	// objects, where it is wanted, takes every document as it is.
	objects *[]map[string]any
}

// ReadObjects reads a directory or file of manifests of any kind, as the
// unstructured objects of a dynamic client: numbers are int64 or float64.
func ReadObjects(path string) ([]map[string]any, []topology.Problem, error) {
	files, _, err := list(path)
	if err != nil {
		return nil, nil, err
	}
	var found []map[string]any
	r := &reader{objects: &found}
	for _, f := range files {
		if err := r.file(f); err != nil {
			return nil, nil, err
		}
	}
	return found, r.problems, nil
}

func (r *reader) fault(object, field, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxFault {
		text = text[:maxFault] + "..."
	}
	r.problems = append(r.problems, topology.Problem{Object: object, Field: field, Text: text})
}

func (r *reader) file(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		r.fault("file "+path, "", "has %d bytes and is left out; at most %d are read, split it", info.Size(), maxFile)
		return nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		where := fmt.Sprintf("file %s document %d", path, n)
		if err != nil {
			r.fault(where, "", "cannot be split into YAML documents: %v", err)
			return nil
		}
		r.document(where, doc)
	}
}

func (r *reader) document(where string, doc []byte) {
	if len(bytes.TrimSpace(doc)) == 0 {
		return
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
		Items []runtime.RawExtension `json:"items"`
	}
	raw, err := yaml.YAMLToJSON(doc)
	if err == nil {
		err = yaml.Unmarshal(raw, &head)
	}
	if err != nil {
		r.fault(where, "", "is no Kubernetes manifest and is left out: %v", err)
		return
	}
	if strings.HasSuffix(head.Kind, "List") {
		for i, item := range head.Items {
			r.document(fmt.Sprintf("%s items[%d]", where, i), item.Raw)
		}
		return
	}
	if head.Kind != "" {
		where = fmt.Sprintf("%s %s/%s (%s)", strings.ToLower(head.Kind), orDefault(head.Metadata.Namespace), head.Metadata.Name, where)
	}
	if r.objects != nil {
		var obj map[string]any
		if err := utiljson.Unmarshal(raw, &obj); err != nil {
			r.fault(where, "", "cannot be read and is left out: %v", err)
			return
		}
		*r.objects = append(*r.objects, obj)
		return
	}
	switch head.APIVersion + "/" + head.Kind {
	case "v1/Service":
		decode(r, where, raw, func(s *corev1.Service) {
			s.Namespace = orDefault(s.Namespace)
			r.b.SetService(convert.Service(s))
		})
	case "discovery.k8s.io/v1/EndpointSlice":
		decode(r, where, raw, func(s *discoveryv1.EndpointSlice) {
			s.Namespace = orDefault(s.Namespace)
			if out := convert.Slice(s); out != nil {
				r.b.SetSlice(out)
			}
		})
	case "v1/Node":
		decode(r, where, raw, func(n *corev1.Node) { r.b.SetNode(convert.Node(&n.ObjectMeta)) })
	case "networking.k8s.io/v1/ServiceCIDR":
		decode(r, where, raw, func(c *networkingv1.ServiceCIDR) { r.cidrs = slices.Concat(r.cidrs, convert.ServiceCIDR(c)) })
	case "/":
		r.fault(where, "kind", "is missing, as is apiVersion; the document is left out")
	}
}

// decode is strict first, so that a mistyped field is told; the object is
// taken without it.
func decode[T any](r *reader, where string, raw []byte, take func(*T)) {
	var obj T
	if err := yaml.UnmarshalStrict(raw, &obj); err != nil {
		var again T
		if lenient := yaml.Unmarshal(raw, &again); lenient != nil {
			r.fault(where, "", "cannot be read and is left out: %v", lenient)
			return
		}
		r.fault(where, "", "has a field that does not exist and is passed over: %v", err)
		obj = again
	}
	take(&obj)
}

func orDefault(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}
