package source

import (
	"bufio"
	"bytes"
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
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

// Bounds of one file of manifests.
const (
	maxFile  = 64 << 20 // bytes
	maxFault = 200      // characters of a decoder's complaint
)

// manifests are the objects of one file, in its order, and what is wrong with it.
type manifests struct {
	services []*topology.Service
	slices   []*topology.Slice
	nodes    []*topology.Node
	cidrs    []netip.Prefix
	problems []topology.Problem
	// objects, where it is not nil, takes every document as it is, instead.
	objects *[]map[string]any
}

func (m *manifests) fault(object, field, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxFault {
		text = text[:maxFault] + "..."
	}
	m.problems = append(m.problems, topology.Problem{Object: object, Field: field, Text: text})
}

func (m *manifests) file(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		m.fault("file "+path, "", "has %d bytes and is left out; at most %d are read, split it", info.Size(), maxFile)
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
			m.fault(where, "", "cannot be split into YAML documents: %v", err)
			return nil
		}
		m.document(where, doc)
	}
}

func (m *manifests) document(where string, doc []byte) {
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
		err = json.UnmarshalCaseSensitivePreserveInts(raw, &head)
	}
	if err != nil {
		m.fault(where, "", "is no Kubernetes manifest and is left out: %v", err)
		return
	}
	if strings.HasSuffix(head.Kind, "List") {
		for i, item := range head.Items {
			m.document(fmt.Sprintf("%s items[%d]", where, i), item.Raw)
		}
		return
	}
	if head.Kind != "" {
		where = fmt.Sprintf("%s %s/%s (%s)", strings.ToLower(head.Kind), orDefault(head.Metadata.Namespace), head.Metadata.Name, where)
	}
	if m.objects != nil {
		var obj map[string]any
		if err := utiljson.Unmarshal(raw, &obj); err != nil {
			m.fault(where, "", "cannot be read and is left out: %v", err)
			return
		}
		*m.objects = append(*m.objects, obj)
		return
	}
	switch head.APIVersion + "/" + head.Kind {
	case "v1/Service":
		decode(m, where, raw, func(s *corev1.Service) {
			s.Namespace = orDefault(s.Namespace)
			m.services = append(m.services, convert.Service(s))
		})
	case "discovery.k8s.io/v1/EndpointSlice":
		decode(m, where, raw, func(s *discoveryv1.EndpointSlice) {
			s.Namespace = orDefault(s.Namespace)
			if out := convert.Slice(s); out != nil {
				m.slices = append(m.slices, out)
			}
		})
	case "v1/Node":
		decode(m, where, raw, func(n *corev1.Node) { m.nodes = append(m.nodes, convert.Node(&n.ObjectMeta)) })
	case "networking.k8s.io/v1/ServiceCIDR":
		decode(m, where, raw, func(c *networkingv1.ServiceCIDR) { m.cidrs = append(m.cidrs, convert.ServiceCIDR(c)...) })
	case "/":
		m.fault(where, "kind", "is missing, as is apiVersion; the document is left out")
	}
}

// decode takes an object without the fields that do not exist, and says which.
func decode[T any](m *manifests, where string, raw []byte, take func(*T)) {
	var obj T
	strict, err := json.UnmarshalStrict(raw, &obj)
	if err != nil {
		m.fault(where, "", "cannot be read and is left out: %v", err)
		return
	}
	if err := errors.Join(strict...); err != nil {
		m.fault(where, "", "has a field that does not exist and is passed over: %v", err)
	}
	take(&obj)
}

func orDefault(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}
