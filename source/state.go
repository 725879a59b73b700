package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/topology"
)

// State is the last good state of a node: enough to serve again after a
// restart without a cloud.
type State struct {
	Snapshot *topology.Snapshot
	Used     []string       // clusters that Envoy asked for by name
	PodCIDRs []netip.Prefix // of this node
	Node     string         // this one; "" in a file of before
	Policies *bool          // the cluster had NetworkPolicies; nil where nobody said
	// Ranges are those of --service-cidr that were guarded; nil in a file of before.
	Ranges *[]netip.Prefix
	// NodeIPs are those by which the own Node said that it is known, Homes those by which its
	// default routes left, as capture.IPs has them.
	NodeIPs, Homes []netip.Addr
	Servers        []netip.Addr // from where the API server answered, the newest last
	// Answered is when each of Servers last did, in seconds since 1970; nil in a file of before.
	Answered []int64
}

// StateFile is the name of the state file in an agent's --state-dir.
const StateFile = "state"

// maxState bounds a state file, as it is read and as it is written: more than four times what
// 10,000 Services of ten endpoints weigh, and than the largest cluster that is spoken of, of which
// gridmesh-dns keeps all (TestTheStateOfALargeCluster).
const maxState = 64 << 20

// Errors of a state that is whole, and none to be used or kept.
var (
	// ErrOther is what another node's agent kept.
	ErrOther = errors.New("is another node's")
	// ErrTooLarge is a state that nobody would read.
	ErrTooLarge = errors.New("is too large to be kept")
)

// ReadState reads a state file. A file that is not there is no error and no
// state. One that cannot be used is set aside as path.bad, in the place of
// another one there, and reported; the caller goes on without it. One that could not
// be read stays: ErrUnread.
func ReadState(path string) (*State, error) { return ReadStateOf("")(path) }

// ReadStateOf is ReadState for the node of a name: what another one's agent kept is
// ErrOther, for it was chosen for that node, and has its pods' ranges; it stays until a newer one
// is kept, for the name may be the mistake. A file of before, which does not say whose it is, is taken.
func ReadStateOf(node string) func(path string) (*State, error) {
	return func(path string) (*State, error) { return readStateOf(node, path) }
}

func readStateOf(node, path string) (*State, error) {
	st, err := readState(path)
	if err == nil && node != "" && st.Node != "" && st.Node != node {
		return nil, fmt.Errorf("state file %s %w: it was kept by the agent of %.253q, and this is that of %q; it stays until a newer one is kept", path, ErrOther, st.Node, node)
	}
	switch {
	case err == nil:
		return st, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case errors.Is(err, ErrUnread):
		return nil, err
	}
	aside, rename := atomicfile.SetAside(path)
	if rename != nil {
		return nil, errors.Join(err, rename)
	}
	return nil, fmt.Errorf("%w; it was set aside as %s and the node starts without it", err, aside)
}

// MayHaveState reports whether there is a state file, or may be, where nobody can look.
func MayHaveState(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// LookAtState reads a state file as ReadState does, and leaves it where it is
// whatever is in it. One that is not there is os.ErrNotExist.
func LookAtState(path string) (*State, error) { return readState(path) }

// ErrUnread is a state file that could not be read this time, and may be good.
var ErrUnread = errors.New("read state")

func readState(path string) (*State, error) {
	data, _, err := atomicfile.Read(path, maxState)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, err
	case errors.Is(err, atomicfile.ErrOdd):
		return nil, fmt.Errorf("state file %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	st, err := DecodeState(data)
	if err != nil {
		return nil, fmt.Errorf("state file %s %w", path, err)
	}
	return st, nil
}

// DecodeState reads a state from memory.
func DecodeState(data []byte) (*State, error) {
	d, err := NewDecoder(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	st, b := &State{}, topology.NewBuilder()
	for {
		r, err := d.Decode()
		if err != nil {
			return nil, err
		}
		switch {
		case r.Sync != nil:
			if err := d.end(); err != nil {
				return nil, err
			}
			st.Snapshot = b.Build()
			return st, nil
		case r.Used != nil:
			st.Used = *r.Used
		case r.PodCIDRs != nil:
			st.PodCIDRs = *r.PodCIDRs
		case r.Policies != nil:
			st.Policies = r.Policies
		case r.Ranges != nil:
			st.Ranges = r.Ranges
		case r.NodeIPs != nil:
			st.NodeIPs = *r.NodeIPs
		case r.Homes != nil:
			st.Homes = *r.Homes
		case r.Servers != nil:
			st.Servers = *r.Servers
		case r.Answered != nil:
			st.Answered = *r.Answered
		case r.Of != nil:
			st.Node = *r.Of
		default:
			apply(b, r)
		}
	}
}

// bounded takes what a state file may have, and no more.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxState {
		return 0, fmt.Errorf("the state %w: it has more than %d MiB", ErrTooLarge, maxState>>20)
	}
	return b.Buffer.Write(p)
}

// EncodeState writes a state to memory; ErrTooLarge where it is none to be kept.
func EncodeState(st *State) ([]byte, error) {
	var buf bounded
	e, err := NewEncoder(&buf)
	if err != nil {
		return nil, err
	}
	for _, r := range st.records() {
		if err := e.Encode(r); err != nil {
			return nil, err
		}
	}
	if err := e.Snapshot(st.Snapshot); err != nil {
		return nil, err
	}
	if err := e.Sync(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// records are what is said of a state besides its snapshot.
func (st *State) records() (list []Record) {
	if len(st.Used) > 0 {
		list = append(list, Record{Used: &st.Used})
	}
	if len(st.PodCIDRs) > 0 {
		list = append(list, Record{PodCIDRs: &st.PodCIDRs})
	}
	if len(st.NodeIPs) > 0 {
		list = append(list, Record{NodeIPs: &st.NodeIPs})
	}
	if len(st.Homes) > 0 {
		list = append(list, Record{Homes: &st.Homes})
	}
	if len(st.Servers) > 0 {
		list = append(list, Record{Servers: &st.Servers})
	}
	if len(st.Answered) > 0 {
		list = append(list, Record{Answered: &st.Answered})
	}
	if st.Node != "" {
		list = append(list, Record{Of: &st.Node})
	}
	if st.Policies != nil {
		list = append(list, Record{Policies: st.Policies})
	}
	if st.Ranges != nil {
		list = append(list, Record{Ranges: st.Ranges})
	}
	return list
}

// Keeper writes a state file when its content changed. It has one owner, which
// after a change waits for what Wait says and then calls Write: that makes one
// write an interval where changes go on and on, and where they come after a
// pause, such as those of a rollout or of a node's first minute, a few sooner.
type Keeper struct {
	path     string
	interval time.Duration
	last     [sha256.Size]byte
	at       time.Time // of the last write
	paid     time.Time // when all of the writes that may come sooner may do so again
	Written  int64     // bytes, since NewKeeper
}

// How many writes may come sooner than the interval wants, and how much sooner.
const (
	soonWrites = 5
	soonPart   = 10
)

// NewKeeper writes to path.
func NewKeeper(path string, interval time.Duration) *Keeper {
	return &Keeper{path: path, interval: interval}
}

// Wait returns how long after now the next Write is due; 0 for at once.
func (k *Keeper) Wait(now time.Time) time.Duration {
	soon := k.at.Add(k.interval / soonPart)
	paced := k.paid.Add(-(soonWrites - 1) * k.interval)
	return max(0, soon.Sub(now), paced.Sub(now))
}

// Write writes st if it differs from what was written last. An error, ErrTooLarge
// among them, costs freshness, nothing else: the file before stays whole.
func (k *Keeper) Write(st *State, now time.Time) error {
	k.at = now
	if k.paid.Before(now) {
		k.paid = now
	}
	k.paid = k.paid.Add(k.interval)
	data, err := EncodeState(st)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	sum := sha256.Sum256(data)
	if sum == k.last {
		return nil
	}
	if err := atomicfile.Write(k.path, data); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	k.last = sum
	k.Written += int64(len(data))
	return nil
}

// Subset returns the part of s that some Services need: themselves, as keep has
// them (nil: not at all), their slices, the nodes of their endpoints, and the named node. It is
// marked as partial, which the state file does not say: who reads it knows.
func Subset(s *topology.Snapshot, node string, keep func(*topology.Service) *topology.Service) *topology.Snapshot {
	b := topology.NewBuilder()
	b.SetServiceCIDRs(s.ServiceCIDRs)
	addNode := func(name string) {
		if n, ok := s.Nodes.Get(name); ok {
			b.SetNode(n)
		}
	}
	addNode(node)
	for _, entry := range s.Services.All() {
		if entry.Service == nil {
			continue
		}
		kept := keep(entry.Service)
		if kept == nil {
			continue
		}
		b.SetService(kept)
		for _, slice := range entry.Slices {
			b.SetSlice(slice)
			for i := range slice.Endpoints {
				addNode(slice.Endpoints[i].Node)
			}
		}
	}
	part := b.Build()
	part.Partial = true
	return part
}
