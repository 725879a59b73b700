// Package arch holds the laws of the house: which package may import which,
// which are pure, what has to be documented, and how large code may be. Its
// tests check them on the whole module.
//
//	arch.go   the layers, and Check of a package's imports
//	pure.go   what a pure package does without
//	tests.go  what tests may import
//	size.go   sizes of files and functions
//	leaks.go  which packages start goroutines
//
// A new folder takes a line in layers; a law that is in the way is changed
// here, with its reason.
package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the main module.
const Module = "github.com/gridmesh/gridmesh"

// The layers; imports point to lower ones only.
const (
	layerBase  = iota // what everybody uses
	layerRules        // the decision, without I/O
	layerFeed         // where snapshots come from
	layerRoom         // what acts on them; rooms never import each other
	layerNode         // the node agent, which puts rooms together
	layerCmd          // programs: flags, help, exit codes
	layerTest         // stories across rooms, the test cluster
)

// layers lists every folder with its layer. A longer prefix wins. Folders that are
// not there yet have their laws already: planned, in planned_test.go, names them.
var layers = map[string]int{
	"api": layerBase, "internal": layerBase,
	"topology": layerRules, "convert": layerRules,
	"source": layerFeed, "kube": layerFeed,
	"xds": layerRoom, "capture": layerRoom, "dnsplugin": layerRoom, "grid": layerRoom,
	"health": layerRoom, "admission": layerRoom, "tunnel": layerRoom, "autonomy": layerRoom,
	"node": layerNode,
	"cmd":  layerCmd,
	"test": layerTest,
}

// sideways are the imports allowed within a layer.
var sideways = map[string][]string{
	"convert": {"topology"}, // it makes topology's types
}

// clientGo may be imported by these alone, and by leaves where it says so.
var clientGo = []string{"kube", "test"}

// leaves are parts of client-go that talk to nobody, with who uses them.
var leaves = map[string]string{"k8s.io/client-go/util/workqueue": "grid"}

// Check returns the laws that a package's imports break, with the reason.
func Check(pkg string, imports []string) []string {
	from := strings.TrimPrefix(pkg, Module+"/")
	room, layer, ok := find(from)
	if !ok {
		return []string{fmt.Sprintf("%s is in no layer: add its folder to internal/arch, or put it into one", from)}
	}
	var broken []string
	for _, path := range imports {
		why := foreign(from, path)
		if to, ours := strings.CutPrefix(path, Module+"/"); ours {
			why = own(from, room, layer, to)
		}
		if why != "" {
			broken = append(broken, fmt.Sprintf("%s imports %s: %s", from, path, why))
		}
	}
	return broken
}

// own returns what is wrong with an import from the module itself.
func own(from, room string, layer int, to string) string {
	target, below, ok := find(to)
	switch {
	case !ok:
		return "" // its own law is broken already
	case slices.Contains(pure, from) && room != "internal" && strings.HasPrefix(to, "internal/") && !slices.Contains(pureInternal, to):
		return "a pure package uses of internal what does no I/O only: " + strings.Join(pureInternal, ", ")
	case slices.Contains(pure, from) && below > layerRules && (room != target || !slices.Contains(pure, to)):
		return "a pure package uses api, internal, topology, convert and pure packages of its own room only, so that it can be tested and run anywhere"
	case room == target || layer == layerTest || below < layer || slices.Contains(sideways[room], target):
		return ""
	case layer == layerRoom && below == layerRoom:
		return "rooms never import each other, so that each can be read and changed alone; node or cmd puts them together"
	case layer == layerFeed && below == layerFeed:
		return "kube and source are two ways to a snapshot; what both need is in topology or convert"
	}
	return "imports point to lower layers only"
}

// foreign returns what is wrong with an import from elsewhere.
func foreign(from, path string) string {
	switch {
	case slices.Contains(pure, from) && impure(path):
		return "a pure package does no I/O and asks for no time or chance; hand in what it needs as an argument"
	case under(path, "k8s.io/client-go") && !slices.ContainsFunc(clientGo, func(room string) bool { return under(from, room) }) && leaves[path] != from:
		return "only kube talks to an API server, so that there is one way to watch and one to write"
	case under(from, "topology") && strings.HasPrefix(path, "k8s.io/"):
		return "topology has small types of its own, which are the state file and the socket too; convert makes them"
	}
	return ""
}

// find returns the room and layer of a path by its longest known prefix.
func find(path string) (room string, layer int, ok bool) {
	for prefix, n := range layers {
		if under(path, prefix) && len(prefix) > len(room) {
			room, layer, ok = prefix, n, true
		}
	}
	return room, layer, ok
}

// under reports whether path is folder, or in it.
func under(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
