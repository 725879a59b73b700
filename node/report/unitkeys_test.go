package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// KEP-279: what a kubelet may say of its own Node.
func TestKubeletMaySet(t *testing.T) {
	for key, want := range map[string]bool{
		"unit": true, "example.com/unit": true, "superedge.io/unit": true, "notkubernetes.io/unit": true,
		"topology.kubernetes.io/zone": true, "node.kubernetes.io/unit": true, "x.kubelet.kubernetes.io/unit": true,
		"node-restriction.kubernetes.io/unit": false, "x.node-restriction.kubernetes.io/unit": false,
		"node-role.kubernetes.io/unit": false, "kubernetes.io/unit": false, "apps.k8s.io/unit": false,
	} {
		if got := kubeletMaySet(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if got := KubeletNote([]string{"kubernetes.io/hostname", "node-restriction.kubernetes.io/unit"}); got != "" {
		t.Errorf("note: %q", got)
	}
}

// cluster has nodes with the labels that come after their names, a Service closed by each
// of the keys, and one that is open.
func cluster(keys []string, nodes map[string][]string) *topology.Snapshot {
	b := topology.NewBuilder()
	for name, labels := range nodes {
		n := &topology.Node{Name: name, Labels: map[string]string{}}
		for _, text := range labels {
			key, value, _ := strings.Cut(text, "=")
			n.Labels[key] = value
		}
		b.SetNode(n)
	}
	for i, text := range append(slices.Clone(keys), `open", "*`) {
		list := `["` + text + `"]`
		b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "default", Name: fmt.Sprint("s", i)}, TopologyKeys: &list})
	}
	return b.Build()
}

func unitKeys(s *topology.Snapshot) UnitKeys {
	var x LabelIndex
	x.Next(s)
	return x.Of(topology.See(s, "a-1", topology.Options{}))
}

// That a node has no label of a key is no mistake where few others have one, where it says
// so itself, or is of the control plane; and none where nothing is refused by it.
func TestKeysWithoutALabel(t *testing.T) {
	const unit, rack, open = "node-restriction.kubernetes.io/unit", "node-restriction.kubernetes.io/rack", "open"
	const note = "the node has no label " + unit + ", which Services have in their topologyKeys: by them it reaches nobody"
	others := map[string][]string{"b-1": {unit + "=b", open + "=b"}, "b-2": {unit + "=b", open + "=b"}, "cloud": nil}
	for _, tc := range []struct {
		what    string
		keys    []string
		own     []string
		others  map[string][]string
		without string // the keys
		lost    string
		note    string
	}{
		{"it has one", []string{unit}, []string{unit + "=a", open + "=a"}, others, "", "", ""},
		{"most have one", []string{unit}, []string{open + "=a"}, others, unit, unit, ""},
		{"half have one", []string{unit}, []string{open + "=a"}, map[string][]string{"b-1": {unit + "=b", open + "=b"}, "cloud": nil}, unit, "", note},
		{"on purpose", []string{unit}, []string{unit + "=", open + "=a"}, others, unit, "", ""},
		{"the control plane", []string{unit}, []string{"node-role.kubernetes.io/control-plane=", open + "=a"}, others, unit, "", note},
		{"of no node", []string{unit, rack}, []string{unit + "=a", open + "=a"}, others, "", "", ""},
		{"an open Service's", nil, nil, others, open, "", "the node has no label open, "},
		{"another key will do", []string{unit + `", "open`}, []string{open + "=a"}, others, unit, "", note},
	} {
		nodes := maps.Clone(tc.others)
		nodes["a-1"] = tc.own
		u := unitKeys(cluster(tc.keys, nodes))
		text := ""
		for _, n := range u.Notes() {
			if !strings.Contains(n, "every kubelet may set") {
				text += n
			}
		}
		if strings.Join(u.Without, " ") != tc.without || strings.Join(u.Lost, " ") != tc.lost || !strings.HasPrefix(text, tc.note) || (text == "") != (tc.note == "") {
			t.Errorf("%s: without %q, lost %q, %q", tc.what, u.Without, u.Lost, text)
		}
	}
	if u := unitKeys(cluster([]string{unit}, others)); len(u.Without) != 0 || len(u.Notes()) != 1 {
		t.Errorf("of a node that is not known: %+v", u)
	}
	part := cluster([]string{rack}, map[string][]string{"a-1": nil})
	part.Partial = true
	if u := unitKeys(part); !slices.Contains(u.Without, rack) {
		t.Errorf("a snapshot that has not all nodes: %+v", u)
	}
}

// A fleet of shops and plants, each labelled right: a Service that is closed to shops is no
// matter of the plants, whoever wrote it. A node that was forgotten has neither label, and is
// told also where somebody's Service is closed by a label that providers give every Node.
func TestUnitsOfTwoKinds(t *testing.T) {
	const shop, plant, host = "node-restriction.kubernetes.io/shop", "node-restriction.kubernetes.io/plant", "kubernetes.io/hostname"
	const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
	nodes := map[string][]string{"cloud": {host + "=cloud", zone + "=z", region + "=r"}}
	for i := range 6 {
		nodes[fmt.Sprint("shop-", i)] = []string{shop + "=s", host + "=s", zone + "=z"}
	}
	for i := range 3 {
		nodes[fmt.Sprint("plant-", i)] = []string{plant + "=p", host + "=p", zone + "=z"}
	}
	both := slices.Clip([]string{shop, plant, host})
	for _, tc := range []struct {
		what  string
		keys  []string
		own   []string
		lost  string
		noted string
	}{
		{"a plant", both, []string{plant + "=p"}, "", shop},
		{"a shop", both, []string{shop + "=s"}, "", plant},
		{"forgotten, with a name like every node", both, nil, shop, plant},
		{"forgotten, in a zone like every node", append(both, zone), []string{zone + "=z"}, shop, plant},
		{"of the cloud, in a region like few", append(both, region), []string{region + "=r"}, "", plant + " " + shop},
		{"in no unit on purpose, by another key", both, []string{plant + "="}, "", shop},
		{"a plant, and no Service is closed to plants", []string{shop}, []string{plant + "=p"}, shop, ""},
		{"a Service for either", []string{shop + `", "` + plant}, []string{plant + "=p"}, "", shop},
	} {
		all := maps.Clone(nodes)
		all["a-1"] = append(tc.own, host+"=a-1")
		u := unitKeys(cluster(tc.keys, all))
		if lost, noted := strings.Join(u.Lost, " "), strings.Join(u.noted, " "); lost != tc.lost || noted != tc.noted {
			t.Errorf("%s: lost %q, noted %q", tc.what, lost, noted)
		}
	}
}

// A key that one tenant mistyped is his, and said as his problem: a node says nothing of it.
func TestKeysThatNoNodeHas(t *testing.T) {
	if u := unitKeys(cluster([]string{"unitt"}, map[string][]string{"a-1": {"open=a"}, "b-1": {"unit=b"}})); len(u.Without) != 0 || len(u.Notes()) != 1 || strings.Contains(u.Notes()[0], "unitt") {
		t.Errorf("%+v, %q", u, u.Notes())
	}
	var many, labels []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("node-restriction.kubernetes.io/%d", i))
		labels = append(labels, many[i]+"=b")
	}
	u := unitKeys(cluster(many, map[string][]string{"a-1": {"open=a"}, "b-1": labels, "c-1": nil}))
	if got := u.Notes(); len(got) != 2 || len(got[1]) > 500 || !strings.Contains(got[1], ", …") {
		t.Errorf("notes: %q", got)
	}
}

// The index equals a count of what there is, whatever came before.
func TestLabelsFollowTheSnapshots(t *testing.T) {
	var x LabelIndex
	for i, nodes := range []map[string][]string{
		{"a-1": {"u=a"}, "b-1": {"u=b"}}, {"a-1": {"u=a"}, "b-1": {"u="}}, {"a-1": {"v=a"}}, nil, {"a-1": {"u=a"}, "b-1": nil},
	} {
		x.Next(cluster(nil, nodes))
		var whole LabelIndex
		whole.Next(cluster(nil, nodes))
		if !maps.Equal(x.have, whole.have) {
			t.Errorf("step %d: %v, want %v", i, x.have, whole.have)
		}
	}
}
