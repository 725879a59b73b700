package plan

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"maps"
	"runtime"
	"strings"
	"time"
	"unique"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gridmesh/gridmesh/api/names"
)

// packed is a JSON object that is held as its text, and once however many have
// it: decoded it takes up to forty times as much, and every unit has the template.
type packed struct{ text unique.Handle[string] }

func pack(obj Object) packed {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a byte would become six
	if err := e.Encode(obj); err != nil {
		panic(err) // it came from JSON
	}
	return packed{unique.Make(text.String())}
}

// open decodes it; what it returns is the caller's.
func (p packed) open() (obj Object) {
	if p == (packed{}) {
		return Object{}
	}
	if err := utiljson.Unmarshal([]byte(p.text.Value()), &obj); err != nil {
		panic(err) // it was packed
	}
	return obj
}

// size is that of the text.
func (p packed) size() int {
	if p == (packed{}) {
		return 0
	}
	return len(p.text.Value())
}

// packedField is where a pruned object has what was packed of it, as a list: of a grid the
// spec, of a revision the data, of a child the spec and, apart, its labels (inParts). Client-go,
// which copies what informers hold where it looks for mutations, knows JSON's types
// alone; and the one that a text has is none that decoding gives, for a field of this
// name in somebody's manifest is not ours.
const packedField = "packed"

// packInto packs into an object. A text is one for all as long as somebody has a
// handle of it, and a string is none: the object has those until it is collected.
func packInto(obj Object, contents ...Object) {
	list, held := make([]any, len(contents)), make([]packed, len(contents))
	for i, content := range contents {
		held[i] = pack(content)
		list[i] = json.Number(held[i].text.Value())
	}
	runtime.AddCleanup(&list[0], func([]packed) {}, held)
	obj[packedField] = list
}

// packedOf is what Prune packed of an object, one at least; nil where it was not pruned.
func packedOf(obj Object) []packed {
	var held []packed
	for _, v := range value[[]any](obj, packedField) {
		text, ours := v.(json.Number)
		if !ours {
			return nil
		}
		held = append(held, packed{unique.Make(string(text))})
	}
	return held
}

// labelsInPart are about as many labels as are packed together.
const labelsInPart = 64

// inParts divides labels by their keys, and alike whatever their values: a child that has one
// of its own has the other parts as all have them.
func inParts(labels Object) []Object {
	parts := make([]Object, (len(labels)+labelsInPart-1)/labelsInPart)
	for key, v := range labels {
		at := crc32.ChecksumIEEE([]byte(key)) % uint32(len(parts))
		if parts[at] == nil {
			parts[at] = Object{}
		}
		parts[at][key] = v
	}
	return parts
}

// dataOf is what a revision holds, pruned or not.
func dataOf(obj Object) packed {
	if held := packedOf(obj); held != nil {
		return held[0]
	}
	return pack(value[Object](obj, "data"))
}

// Prune drops from an object in place what plans never read, and packs what they
// seldom do, so that mirrors of large clusters stay small. Of a Node, labels and
// readiness remain; of managed fields, who scales.
func Prune(obj Object) {
	metadata, kind := value[Object](obj, "metadata"), value[string](obj, "kind")
	if kind == kindNode {
		pruneNode(obj, metadata)
		return
	}
	pruneManagers(metadata)
	switch {
	case packedOf(obj) != nil: // it was pruned
	case kind == RevisionKind:
		packInto(obj, value[Object](obj, "data"))
		delete(obj, "data")
	case kindOf(kind) != nil:
		packInto(obj, value[Object](obj, "spec"))
		delete(obj, "spec")
	case kindOfChild(kind) != nil:
		kindOfChild(kind).pruneChild(obj, metadata)
	}
}

// pruneChild leaves of a child what differs from unit to unit, and what else is
// read of it. The rest, which is only compared, is packed: most units have it alike.
func (k *Kind) pruneChild(obj, metadata Object) {
	spec := value[Object](obj, "spec")
	packInto(obj, append([]Object{k.alike(spec)}, inParts(value[Object](metadata, "labels"))...)...)
	own := Object{}
	for _, path := range k.reads() {
		if v := value[any](spec, path...); v != nil {
			last := len(path) - 1
			ensure(own, path[:last]...)[path[last]] = v
		}
	}
	obj["spec"] = own
	if metadata == nil {
		return
	}
	labels := Object{}
	for _, key := range []string{names.GridSelector, names.GridUniqKey} {
		if v, has := value[Object](metadata, "labels")[key]; has {
			labels[key] = v
		}
	}
	metadata["labels"] = labels
	if annotations := value[Object](metadata, "annotations"); k.PerUnit { // a Service has its grid's
		ours := maps.Clone(annotations)
		maps.DeleteFunc(ours, func(key string, _ any) bool { return !strings.HasPrefix(key, names.Domain+"/") })
		metadata["annotations"] = ours
	}
}

// alike is what the units' children have alike of a spec.
func (k *Kind) alike(spec Object) Object {
	if !k.PerUnit {
		return spec
	}
	return without(without(spec, k.replicas...), k.nodeSelector()...)
}

// templateHash is a label that SuperEdge's controller wrote into templates and
// so onto pods. To take it away would replace them.
const templateHash = "superedge.io/template-hash-key"

// reads are the fields of a child's spec that are read, and not only compared.
func (k *Kind) reads() [][]string {
	if !k.PerUnit {
		return nil
	}
	return [][]string{k.replicas, k.nodeSelector(), {"updateStrategy"}, append(k.podLabels(), templateHash)}
}

// scaler reports whether an entry of managed fields owns spec.replicas.
func scaler(e any) (entry Object, scales bool) {
	entry, _ = e.(Object)
	_, scales = value[Object](entry, "fieldsV1", "f:spec")["f:replicas"]
	return entry, scales
}

func pruneManagers(metadata Object) {
	var kept []any
	for _, e := range value[[]any](metadata, "managedFields") {
		if entry, scales := scaler(e); scales {
			kept = append(kept, Object{"manager": entry["manager"], "fieldsV1": Object{"f:spec": Object{"f:replicas": Object{}}}})
		}
	}
	delete(metadata, "managedFields")
	if kept != nil {
		metadata["managedFields"] = kept
	}
}

func pruneNode(obj, metadata Object) {
	n := readNode(obj)
	for key := range metadata {
		if key != "name" && key != "labels" && key != "resourceVersion" && key != "uid" {
			delete(metadata, key)
		}
	}
	delete(obj, "spec")
	ready := Object{"type": "Ready", "status": "False"}
	if n.ready {
		ready["status"] = "True"
	}
	if !n.since.IsZero() {
		ready["lastTransitionTime"] = n.since.UTC().Format(time.RFC3339)
	}
	obj["status"] = Object{"conditions": []any{ready}}
}

// node is a Node, read.
type node struct {
	labels map[string]string
	ready  bool
	since  time.Time // when it became ready, as far as is known
}

// readNode reads a Node; one without the condition Ready counts as ready.
func readNode(obj Object) node {
	status, found := condition(obj, "Ready")
	n := node{labels: stringsOf(value[Object](obj, "metadata", "labels")), ready: !found || status["status"] == "True"}
	if n.ready {
		n.since, _ = time.Parse(time.RFC3339, value[string](status, "lastTransitionTime"))
	}
	return n
}
