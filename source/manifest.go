package source

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/topology"
)

// How many bytes of manifests are read.
const (
	MaxFile = 64 << 20  // of one file; a longer one is left out
	MaxDir  = 256 << 20 // of a directory, which is not read where it has more
)

// maxLists are Lists inside each other: each is read by all that are around it.
const maxLists = 4

// manifests are the objects of one file, in its order, and what is wrong with it.
type manifests struct {
	services []service
	slices   []placed[*topology.Slice]
	nodes    []node
	cidrs    []placed[[]netip.Prefix]
	problems []topology.Problem
	leftOut  []origin          // objects that the problems are of
	refused  map[origin]bool   // of the objects, those that no API server takes as they are
	broken   *topology.Problem // the first that cannot be taken apart; nil: all can
	original original          // of the document that is read now
	items    int               // documents, and items of Lists, that were looked at
	// raw: documents are kept as they are, instead.
	raw     bool
	objects []placed[map[string]any]
}

// placed is an object, and where it is written.
type placed[T any] struct {
	is T
	origin
}

// origin is where an object is written.
type origin struct {
	name  string // "service default/web"
	place string // "file state/web.yaml document 2"
	// live: it comes from an API server, for it has a uid. What is written by hand
	// may be put over it.
	live bool
	nth  int // of all that is in the file
}

// String is how Problems name it.
func (o origin) String() string {
	if o.name == "" {
		return o.place
	}
	return fmt.Sprintf("%s (%s)", o.name, o.place)
}

// file takes what a file holds.
func (m *manifests) file(f *file) error {
	if f.given {
		name := "file " + f.path
		if f.path == Stdin {
			name = "standard input"
		}
		if len(f.text) > MaxFile {
			m.torn(name, "", "is longer than %d bytes and is left out; split it", MaxFile)
			return nil
		}
		f.blank = m.text(name, f.text)
		return nil
	}
	data, size, err := readFile(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.gone = true
		return nil
	case err != nil:
		return fmt.Errorf("read manifests: %w", err)
	}
	if f.sum = fmt.Sprint(size, sha256.Sum256(data)); size > MaxFile {
		m.torn("file "+f.path, "", "has %d bytes and is left out; at most %d are read, split it", size, MaxFile)
		return nil
	}
	f.blank, f.empty, f.text = m.text("file "+f.path, data), len(data) == 0, data
	return nil
}

// readFile returns what a file holds and how much that is; of one that is too long
// not all. A pipe may have taken a file's place.
func readFile(path string) (data []byte, size int64, err error) {
	data, info, err := atomicfile.ReadAny(path, MaxFile)
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s: %s", path, noFile)
	}
	return data, max(info.Size(), int64(len(data))), nil
}

// text takes documents that are separated by "---", and reports whether there is none.
func (m *manifests) text(from string, data []byte) (blank bool) {
	if blank = !documented(data); !blank {
		m.documents(from, data)
	}
	return blank
}

func (m *manifests) documents(from string, data []byte) {
	if what, cure := encoding(data); what != "" { // of it only the first document would be found
		m.torn(from, "", "is %s, and is left out; %s", what, cure)
		return
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n, line := 1, 0; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		where := fmt.Sprintf("%s document %d", from, n)
		if err != nil {
			m.torn(where, "", "cannot be split into YAML documents: %v", err)
			return
		}
		m.document(where, doc, line)
		line += bytes.Count(doc, []byte("\n")) + 1 // and the mark behind it
	}
}

// head is what every document has.
type head struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"metadata"`
	Items []runtime.RawExtension `json:"items"`
}

// document takes a document of YAML, or of JSON, which is YAML as well. It is
// converted once, with all the Lists that are in it. So many lines are before it.
func (m *manifests) document(place string, doc []byte, before int) {
	if len(bytes.TrimSpace(doc)) == 0 {
		return
	}
	raw, err := m.toJSON(place, doc)
	if err != nil {
		m.torn(place, "", "is no Kubernetes manifest and is left out: %s", inFile(err.Error(), before))
		return
	}
	m.original = original{place: place, text: doc, before: before}
	m.item(place, raw, 0)
	m.original = original{}
}

// item takes an object of JSON, or those of a List, that is inside so many Lists.
func (m *manifests) item(place string, raw []byte, lists int) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return // nothing but comments
	}
	var h head
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		field, text := misfit[head](raw, err, m.original.below(place))
		if field == "" {
			text += "; write apiVersion, kind and metadata"
		}
		m.torn(place, field, "is no Kubernetes manifest and is left out: %s", text)
		return
	}
	if strings.HasSuffix(h.Kind, "List") {
		if lists == maxLists {
			m.torn(place, "items", "it is a List inside %d others, and no more are read; the document is left out: write what is in it as documents of their own", lists)
			return
		}
		if key := misnamed(raw, h.Items); key != "" {
			m.torn(place, key, "%s has no items, and the document is left out: write items, which seems meant", h.Kind)
			return
		}
		for i, item := range h.Items {
			m.item(fmt.Sprintf("%s items[%d]", place, i), item.Raw, lists+1)
		}
		return
	}
	if m.listed(place, &h) {
		return
	}
	m.items++
	at := origin{place: place, live: h.Metadata.UID != "", nth: m.items}
	meant, field, text := mistaken(h.APIVersion, h.Kind)
	if meant != "" && h.Metadata.Name != "" {
		at.name = objectName(meant, h.Metadata.Namespace, h.Metadata.Name)
	}
	if text != "" && at.name == "" { // whatever it is meant to be
		m.torn(at.String(), field, "%s", text)
		return
	}
	if text != "" {
		m.leave(at, field, "%s", text)
		return
	}
	if !m.named(&h, at) {
		return
	}
	switch {
	case m.raw && h.Kind == "Node" && isRead(h.APIVersion, h.Kind): // without its labels a unit would be gone
		decode(m, at, raw, func(*corev1.Node) { m.object(at, raw) })
		return
	case m.raw:
		m.object(at, raw)
		return
	}
	m.typed(h.Kind+" "+h.APIVersion, at, raw)
}

// objectName is how Problems name an object of a manifest.
func objectName(kind, namespace, name string) string {
	if kind != "Node" && kind != "ServiceCIDR" {
		name = orDefault(namespace) + "/" + name
	}
	return strings.ToLower(kind) + " " + name
}

// object keeps a document as it is.
func (m *manifests) object(at origin, raw []byte) {
	var obj map[string]any
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		m.lost(topology.LostAll, at.String(), "", "cannot be read and is left out: %v", err)
		return
	}
	m.objects = append(m.objects, placed[map[string]any]{obj, at})
}

// typed takes an object of a kind that routing needs; others are passed over.
func (m *manifests) typed(kind string, at origin, raw []byte) {
	switch kind {
	case "Service v1":
		decode(m, at, raw, func(s *corev1.Service) {
			s.Namespace, s.ManagedFields = orDefault(s.Namespace), nil // which are the most of what an API server tells
			out := convert.Service(s)
			m.refusedOf(at, out.Problems)
			if len(s.Spec.Ports) == 0 && !out.Headless && !out.Foreign {
				m.refuse(at, "spec.ports", "is empty, and nothing of the Service is served: name its ports")
			}
			m.services = append(m.services, service{placed[*topology.Service]{out, at}, s})
		})
	case "EndpointSlice discovery.k8s.io/v1":
		decode(m, at, raw, func(s *discoveryv1.EndpointSlice) {
			s.Namespace = orDefault(s.Namespace)
			out := convert.Slice(s)
			_, other := s.Labels[names.ServiceProxyName]
			switch {
			case out != nil:
				m.refusedOf(at, out.Problems)
				m.slices = append(m.slices, placed[*topology.Slice]{out, at})
			case s.Labels[names.ServiceName] == "" && !other && !at.live:
				m.leave(at, "metadata.labels["+names.ServiceName+"]", "is missing: it is of no Service and is left out; give it the Service's name")
			}
		})
	case "Endpoints v1":
		if !at.live { // else its EndpointSlices are there as well
			m.lost(topology.LostAll, at.String(), "kind", "Endpoints are not read, and it is left out: a cluster makes EndpointSlices of it, so write these (discovery.k8s.io/v1, with the label %s)", names.ServiceName)
		}
	case "Node v1":
		decode(m, at, raw, func(n *corev1.Node) {
			m.podRanges(at, &n.Spec)
			m.nodes = append(m.nodes, node{placed[*topology.Node]{convert.Node(&n.ObjectMeta), at}, convert.PodCIDRs(&n.Spec)})
		})
	case "ServiceCIDR networking.k8s.io/v1", "ServiceCIDR networking.k8s.io/v1beta1":
		decode(m, at, raw, func(c *networkingv1.ServiceCIDR) {
			if m.ranges(at, "spec.cidrs", c.Spec.CIDRs); len(c.Spec.CIDRs) == 0 {
				m.refuse(at, "spec.cidrs", "is empty; write a range, or remove the object")
			}
			m.cidrs = append(m.cidrs, placed[[]netip.Prefix]{convert.ServiceCIDR(c), at})
		})
	}
}

func orDefault(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}
