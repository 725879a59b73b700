package topology

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
)

// AnyNode is the key that, in last place, stands for every node.
const AnyNode = "*"

// maxKeys is KEP-536's bound on the number of topology keys.
const maxKeys = 16

// MostKeys bounds the annotation, in bytes: maxKeys of at most 317 characters, with room for spaces.
const MostKeys = 8 << 10

// KeptKeys is what is kept of an annotation: the text, or how long it is where that is too much.
func KeptKeys(text string) string {
	if len(text) <= MostKeys {
		return text
	}
	return longKeys + strconv.Itoa(len(text))
}

// longKeys is no JSON: whatever reads it finds a mistake.
const longKeys = "(too long) "

// tooLong is how long an annotation is that is not read, also where it is kept as KeptKeys has it.
func tooLong(text string) (size int, is bool) {
	if number, kept := strings.CutPrefix(text, longKeys); kept {
		if size, err := strconv.Atoi(number); err == nil {
			return size, true
		}
	}
	return len(text), len(text) > MostKeys
}

// KeyMode says how a Service's topologyKeys annotation is to be read.
type KeyMode uint8

const (
	// NoKeys means absent, empty or "[]". kube-proxy's rules apply.
	NoKeys KeyMode = iota
	// OrderedKeys means tiers in the order of the keys.
	OrderedKeys
	// Malformed means a user's mistake. Closed to the node itself, so that a typo
	// never opens a Service.
	Malformed
)

// Keys is a parsed topologyKeys annotation.
type Keys struct {
	Mode  KeyMode
	List  []string // label keys, in order, without AnyNode
	Any   bool     // AnyNode came last
	Fault string   // what is wrong, if anything
}

// Closed reports whether nothing outside the keyed tiers may answer.
func (k Keys) Closed() bool { return k.Mode == Malformed || k.Mode == OrderedKeys && !k.Any }

// String is the order as people write it: "site > zone > *".
func (k Keys) String() string {
	switch k.Mode {
	case NoKeys:
		return ""
	case Malformed:
		return "(malformed)"
	}
	list := slices.Clone(k.List)
	if k.Any {
		list = append(list, AnyNode)
	}
	return strings.Join(list, " > ")
}

// keysIn are a Service's. An annotation whose name is mistyped is a mistake like
// any other in it where its value is a list, as nobody else's is. Another value
// may be somebody else's: the mistake is told, and closes nothing.
func keysIn(s *Service) Keys {
	keys := ParseKeys(s.TopologyKeys)
	if s.Misspelt == "" || keys.Mode == NoKeys {
		return keys
	}
	what := "no JSON array of strings either"
	if size, is := tooLong(*s.TopologyKeys); is {
		what = fmt.Sprintf("has %d bytes, of which no more than %d are read", size, MostKeys)
	}
	if !isList(*s.TopologyKeys) {
		return Keys{Fault: fmt.Sprintf("is not %s, and %s: if it is meant for that, rename it and write %s; until then it does nothing", names.TopologyKeys, what, meant(s.TopologyKeys))}
	}
	return malformed("is not %s, though it can be meant for nothing else: rename it to that, or remove it", names.TopologyKeys)
}

func isList(text string) bool {
	var list []string
	return json.Unmarshal([]byte(text), &list) == nil
}

// ParseKeys reads the annotation's value: a JSON array of label keys, "*" only
// in last place (KEP-536). nil, "" and "[]" mean no keys.
func ParseKeys(annotation *string) Keys {
	if annotation == nil || strings.TrimSpace(*annotation) == "" {
		return Keys{}
	}
	if size, is := tooLong(*annotation); is {
		return malformed("has %d bytes, and more than %d are not read; write up to %d keys", size, MostKeys, maxKeys)
	}
	var list []string
	if err := json.Unmarshal([]byte(*annotation), &list); err != nil || list == nil { // null is none
		return malformed("is no JSON array of strings: %s", shorten(*annotation))
	}
	if len(list) == 0 {
		return Keys{}
	}
	if len(list) > maxKeys {
		return malformed("has %d keys, at most %d are allowed", len(list), maxKeys)
	}
	keys := Keys{Mode: OrderedKeys}
	for i, key := range list {
		switch {
		case key == AnyNode && i < len(list)-1:
			return malformed(`has "*" in place %d of %d; it may only come last`, i+1, len(list))
		case key == AnyNode:
			keys.Any = true
		case !isLabelKey(key):
			return malformed("has %q in place %d, which is no label key", shorten(key), i+1)
		case !slices.Contains(keys.List, key):
			keys.List = append(keys.List, key)
		}
	}
	return keys
}

func malformed(format string, args ...any) Keys {
	return Keys{Mode: Malformed, Fault: fmt.Sprintf(format, args...)}
}

// shortened is how much of a mistake is repeated.
const shortened = 64

func shorten(s string) string {
	if len(s) > shortened {
		return strings.ToValidUTF8(s[:shortened], "") + "..."
	}
	return s
}

// isLabelKey follows Kubernetes' syntax: an optional DNS subdomain and "/",
// then 1 to 63 of [A-Za-z0-9._-] that begin and end with a letter or digit.
func isLabelKey(key string) bool {
	name := key
	if prefix, rest, found := strings.Cut(key, "/"); found {
		if len(prefix) == 0 || len(prefix) > 253 {
			return false
		}
		for part := range strings.SplitSeq(prefix, ".") {
			if !isWord(part, "-") || part != strings.ToLower(part) {
				return false
			}
		}
		name = rest
	}
	return len(name) <= 63 && isWord(name, "-_.")
}

func isWord(s, inner string) bool {
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		edge := i == 0 || i == len(s)-1
		if !alnum && (edge || !strings.ContainsRune(inner, r)) {
			return false
		}
	}
	return s != ""
}
