package vote

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strconv"
)

// Member is a node of the unit. A node that comes again under its name is another one.
type Member struct{ Name, UID string }

// View is who is in a unit: all who have the same members have the same view, the same
// observers and the same order of reporters. It never changes.
type View struct {
	ID        string // of the members
	names     []string
	uids      []string       // of names
	at        map[string]int // name -> index
	observers [][]int        // by subject
	subjects  [][]int        // by observer
	ranked    []string       // first is who is first to be reported to
}

// NewView makes a view in which each node has k observers, or as many as there are others.
func NewView(members []Member, k int) *View {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	members = slices.CompactFunc(members, func(a, b Member) bool { return a.Name == b.Name })
	v := &View{at: make(map[string]int, len(members))}
	id := sha256.New()
	for i, m := range members {
		v.names, v.uids = append(v.names, m.Name), append(v.uids, m.UID)
		v.at[m.Name] = i
		for _, s := range []string{m.Name, m.UID} {
			var size [4]byte
			binary.BigEndian.PutUint32(size[:], uint32(len(s)))
			id.Write(size[:])
			id.Write([]byte(s))
		}
	}
	v.ID = hex.EncodeToString(id.Sum(nil)[:8])
	for _, i := range order("rank", members) {
		v.ranked = append(v.ranked, members[i].Name)
	}
	v.observe(members, k)
	return v
}

// observe gives each node its observers: in each of k rings, which are orders of all nodes,
// who comes next and is not one yet.
func (v *View) observe(members []Member, k int) {
	n := len(members)
	v.observers, v.subjects = make([][]int, n), make([][]int, n)
	k = min(k, n-1)
	for ring := 0; ring < k; ring++ {
		list := order("ring"+strconv.Itoa(ring), members)
		for i, subject := range list {
			for step := 1; ; step++ {
				next := list[(i+step)%n]
				if next != subject && !slices.Contains(v.observers[subject], next) {
					v.observers[subject] = append(v.observers[subject], next)
					v.subjects[next] = append(v.subjects[next], subject)
					break
				}
			}
		}
	}
	for i := range n {
		slices.Sort(v.observers[i])
		slices.Sort(v.subjects[i])
	}
}

// order is one of all nodes that all agree on, and that says nothing about any of them.
func order(what string, members []Member) []int {
	keys := make([]uint64, len(members))
	list := make([]int, len(members))
	for i, m := range members {
		h := fnv.New64a()
		_, _ = h.Write([]byte(what + "\x00" + m.Name + "\x00" + m.UID))
		keys[i], list[i] = mix(h.Sum64()), i
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(a, b)) })
	return list
}

// mix spreads the bits of what FNV makes of names that differ in their last letter alone
// (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Len is how many nodes there are.
func (v *View) Len() int { return len(v.names) }

// Names are sorted.
func (v *View) Names() []string { return v.names }

// Has reports whether a node is in the unit.
func (v *View) Has(name string) bool { _, ok := v.at[name]; return ok }

// UID is that of the node which has a name in the unit; of a stranger it is empty.
func (v *View) UID(name string) string {
	if i, ok := v.at[name]; ok {
		return v.uids[i]
	}
	return ""
}

func (v *View) member(name string) Member { return Member{name, v.UID(name)} }

// Observers are who checks a node, sorted.
func (v *View) Observers(subject string) []string { return v.of(v.observers, subject) }

// Subjects are whom a node checks, sorted.
func (v *View) Subjects(observer string) []string { return v.of(v.subjects, observer) }

func (v *View) of(lists [][]int, name string) (list []string) {
	i, ok := v.at[name]
	if !ok || len(lists[i]) == 0 {
		return nil
	}
	list = make([]string, 0, len(lists[i]))
	for _, other := range lists[i] {
		list = append(list, v.names[other])
	}
	return list
}

// Ranked are all nodes, in the order in which they are reported to.
func (v *View) Ranked() []string { return v.ranked }
