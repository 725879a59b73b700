// Package arch holds the laws of the house: which package may import which.
// Its test checks them on direct imports.
package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the main module.
const Module = "github.com/gridmesh/gridmesh"

// layers lists every folder with its layer; imports point to lower layers
// only. A longer prefix wins.
var layers = map[string]int{
	"api": 0, "internal": 0,
	"topology": 1,
	"convert":  1, // pure, for every source that reads manifests
	"source":   2, "kube": 2,
	"xds": 3, "capture": 3, "grid": 3, "dnsplugin": 3,
	"cmd":  4,
	"test": 5,
}

// sideways are the imports allowed within a layer.
var sideways = map[string][]string{
	"convert": {"topology"},
	"kube":    {"source"}, // a feed is a source
	"xds":     {"xds/render"},
	"capture": {"capture/plan"},
}

// pure packages do no I/O: what they import is listed in forbidden.
var pure = []string{"topology", "convert", "xds/render", "capture/plan", "grid/plan", "dnsplugin/answer"}

var forbidden = []string{
	"net", "net/http", "os", "os/exec", "syscall", "context", "log", "log/slog", "math/rand", "math/rand/v2",
	"google.golang.org/grpc", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "golang.org/x/sys",
}

// clientGo may be imported by these alone.
var clientGo = []string{"kube", "test"}

// leaves of client-go talk to nobody; a package may import those listed for it.
var leaves = map[string][]string{"grid": {"k8s.io/client-go/util/workqueue"}}

// Check returns the laws that a package's imports break, with the reason.
func Check(pkg string, imports []string) []string {
	var broken []string
	from := strings.TrimPrefix(pkg, Module+"/")
	room, layer, known := find(from)
	if !known {
		return []string{fmt.Sprintf("%s is in no layer: add its folder to internal/arch, or put it into one", from)}
	}
	for _, path := range imports {
		if to, ours := strings.CutPrefix(path, Module+"/"); ours {
			target, below, ok := find(to)
			if ok && room != target && below >= layer && !slices.Contains(sideways[room], to) && layer != 5 {
				broken = append(broken, fmt.Sprintf("%s imports %s: imports point to lower layers, rooms never to each other", from, to))
			}
			if ok && slices.Contains(pure, from) && below > 1 {
				broken = append(broken, fmt.Sprintf("%s is pure and imports %s, which is not", from, to))
			}
			continue
		}
		if slices.Contains(pure, from) && under(path, forbidden) {
			broken = append(broken, fmt.Sprintf("%s is pure and imports %s: hand in what it needs as an argument", from, path))
		}
		if under(path, []string{"k8s.io/client-go"}) && !under(from, clientGo) && !slices.Contains(leaves[from], path) {
			broken = append(broken, fmt.Sprintf("%s imports %s: only kube talks to an API server", from, path))
		}
		if from == "topology" && strings.HasPrefix(path, "k8s.io/") {
			broken = append(broken, fmt.Sprintf("%s imports %s: topology has types of its own, convert makes them", from, path))
		}
	}
	return broken
}

// find returns the room and layer of a path by its longest known prefix.
func find(path string) (room string, layer int, ok bool) {
	for prefix, n := range layers {
		if (path == prefix || strings.HasPrefix(path, prefix+"/")) && len(prefix) > len(room) {
			room, layer, ok = prefix, n, true
		}
	}
	return room, layer, ok
}

func under(path string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/") && p != "net" && p != "os"
	})
}
