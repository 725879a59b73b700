package convert

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/topology"
)

// mostNames is how many annotations are looked through for mistyped names. Who
// has more has a program write them; an API server takes 256 KiB of them, and
// one tenant's must not slow down everybody's Services.
const mostNames = 1000

// topologyKeys returns the annotation, and how its name is written where that
// is mistyped. Names are only looked at where the right one is not there.
func topologyKeys(annotations map[string]string) (keys *string, misspelt string) {
	text, found := annotations[names.TopologyKeys]
	if !found {
		for name, value := range MeantForTopologyKeys(annotations) {
			if misspelt == "" || name < misspelt {
				text, misspelt, found = value, name, true
			}
		}
	}
	if !found {
		return nil, ""
	}
	text = bounded(topology.KeptKeys(text), topology.MostKeys)
	return &text, misspelt
}

// MeantForTopologyKeys are the annotations with that name, or with one that can
// only be meant for it.
func MeantForTopologyKeys(annotations map[string]string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if text, found := annotations[names.TopologyKeys]; found && !yield(names.TopologyKeys, text) || len(annotations) > mostNames {
			return
		}
		for name, value := range annotations {
			if name != names.TopologyKeys && mistyped(name) && !yield(name, value) {
				return
			}
		}
	}
}

// MeansTopologyKeys reports whether a name is the annotation's, or can only be
// meant for it.
func MeansTopologyKeys(name string) bool { return name == names.TopologyKeys || mistyped(name) }

// slips is how many a name may have and still be meant for the word.
const slips = 2

var wanted = strings.ToLower(names.TopologyKeys)

// mistyped reports whether an annotation's name can only be meant for
// topologyKeys: without a prefix, or with one that people might expect it to
// have; and the word, but for case and separators, nearly the same.
func mistyped(name string) bool {
	prefix, word, prefixed := strings.Cut(name, "/")
	if !prefixed {
		word = prefix
	}
	if len(word) < len(wanted)-slips || len(word) > 2*len(wanted) || prefixed && !expected(prefix) {
		return false
	}
	var space [2 * len(names.TopologyKeys)]byte
	return near.Slips(string(plain(space[:0], word)), wanted, slips) <= slips
}

// expected reports whether a prefix is gridmesh's, SuperEdge's or Kubernetes'
// own, that of Services too; else below the last, everybody has annotations.
func expected(prefix string) bool {
	prefix = strings.ToLower(prefix)
	return prefix == "kubernetes.io" || prefix == "k8s.io" || prefix == "service.kubernetes.io" ||
		slices.ContainsFunc([]string{names.Domain, names.SuperEdgeDomain}, func(domain string) bool {
			return prefix == domain || strings.HasSuffix(prefix, "."+domain)
		})
}

// plain appends a word without case and separators.
func plain(to []byte, word string) []byte {
	for _, c := range []byte(word) {
		switch {
		case c == '-' || c == '_' || c == '.':
		case 'A' <= c && c <= 'Z':
			to = append(to, c+'a'-'A')
		default:
			to = append(to, c)
		}
	}
	return to
}

// ours are the annotations and labels under names.Domain that something reads or writes: all
// that api/names has, but for what is written of Leases and taints alone.
var ours = []string{names.Datapath, names.UnitKey, names.Unit, names.Applied, names.AppliedAt, names.AppliedTemplate, names.FirstRevision, names.Settled, names.Replicas, names.UnitGone}

// mostUnknown is how many annotations that nothing reads are told of one Service.
const mostUnknown = 3

// MeantForGridmesh are the annotations below names.Domain that have a say in how a Service is
// served, and those that nothing reads, without their values: so many of these as are told of.
func MeantForGridmesh(annotations map[string]string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if text, found := annotations[names.Datapath]; found && !yield(names.Datapath, text) || len(annotations) > mostNames {
			return
		}
		list := unknown(annotations)
		for _, name := range list[:min(len(list), mostUnknown+1)] { // one may be meant for topologyKeys
			if !yield(name, "") {
				return
			}
		}
	}
}

// unknown are the annotations that bear gridmesh's name and that nothing reads, in order.
func unknown(annotations map[string]string) (list []string) {
	for name := range annotations {
		if strings.HasPrefix(name, names.Domain+"/") && !slices.Contains(ours, name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// unknownNames are annotations of a Service that bear gridmesh's name and that
// nothing reads: who wrote one thinks that it does something.
func unknownNames(annotations map[string]string, of *topology.Service, problem teller) {
	keyed := of.TopologyKeys != nil
	if len(annotations) > mostNames {
		if keyed {
			return
		}
		problem.tell("metadata.annotations", "are %d, too many to look for mistyped names: %s is not among them, so the Service is open to every node; add it if it was meant, or keep fewer than %d", len(annotations), names.TopologyKeys, mostNames)
		return
	}
	cure := "to keep traffic in units use " + names.TopologyKeys + ", else remove it"
	if keyed {
		cure = "correct its name, or remove it"
	}
	found := slices.DeleteFunc(unknown(annotations), func(name string) bool { return name == of.Misspelt })
	for _, name := range found[:min(len(found), mostUnknown)] {
		problem.tell("metadata.annotations["+name+"]", "is no annotation that gridmesh knows, and does nothing; %s", cure)
	}
}

// datapath is the path that the annotation chooses.
func datapath(annotations map[string]string, problem teller) topology.Datapath {
	text, found := annotations[names.Datapath]
	if !found {
		return topology.DatapathNone
	}
	path, err := topology.ParseDatapath(text)
	if err != nil {
		problem.tell("metadata.annotations["+names.Datapath+"]", "%v; until then the nodes' choice stands", err)
	}
	return path
}

// inVain tells of keys that nobody reads, for kube-proxy and gridmesh both pass over
// the Service. What another proxy makes of them is not known, and not said.
func inVain(s *corev1.Service, problem teller) {
	keys, name := topologyKeys(s.Annotations)
	if keys == nil || topology.ParseKeys(keys).Mode == topology.NoKeys {
		return
	}
	field := "metadata.annotations[" + cmp.Or(name, names.TopologyKeys) + "]"
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		problem.tell(field, "does nothing: the Service is an ExternalName, and whoever resolves it dials that name from wherever they are; select pods to keep traffic in units, or remove it")
		return
	}
	problem.tell(field, "does nothing: the Service is labelled %s, which every proxy passes over, and its ClusterIP is not served; remove the label, or the keys", names.Headless)
}

// labelled tells of labels that can only be meant for topologyKeys. Nobody reads
// them, and a label's value cannot be a list: which units were meant is not
// known, so the mistake is told and, as with an annotation that is no list,
// closes nothing.
func labelled(labels map[string]string, problem teller) {
	if len(labels) > mostNames {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if MeansTopologyKeys(name) {
			problem.tell("metadata.labels["+name+"]", "is a label, and only the annotation %s is read: as it stands the Service is open to every node; write metadata.annotations[%s], as '[\"unit\"]'", names.TopologyKeys, names.TopologyKeys)
			return
		}
	}
}
