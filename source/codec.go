package source

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/gridmesh/gridmesh/topology"
)

// Version of the encoding. Readers take it and Oldest up to it.
const (
	Version = 1
	Oldest  = 1
)

const magic = "GRIDMESH"

// maxRecord bounds one record: a slice of 1000 endpoints with long names is
// below 300 KiB.
const maxRecord = 4 << 20

// Errors of Decoder. All of them mean: do not use what was read.
var (
	ErrForeign   = errors.New("is no gridmesh state")
	ErrNewer     = errors.New("was written by a newer gridmesh")
	ErrOlder     = errors.New("was written by a gridmesh too old to be read")
	ErrTruncated = errors.New("is cut off")
	ErrCorrupt   = errors.New("is damaged")
)

// Record is one step of a snapshot's encoding: exactly one field is set.
type Record struct {
	Service       *topology.Service   `cbor:"1,keyasint,omitempty"`
	Slice         *topology.Slice     `cbor:"2,keyasint,omitempty"`
	Node          *topology.Node      `cbor:"3,keyasint,omitempty"`
	CIDRs         *[]netip.Prefix     `cbor:"4,keyasint,omitempty"`
	DeleteService *topology.ObjectKey `cbor:"5,keyasint,omitempty"`
	DeleteSlice   *topology.ObjectKey `cbor:"6,keyasint,omitempty"`
	DeleteNode    *string             `cbor:"7,keyasint,omitempty"`
	// Used lists cluster names that Envoy asked for (state file only).
	Used *[]string `cbor:"8,keyasint,omitempty"`
	// PodCIDRs are this node's (state file only).
	PodCIDRs *[]netip.Prefix `cbor:"10,keyasint,omitempty"`
	// LastContact with the origin, in milliseconds since 1970 (socket only).
	LastContact *int64 `cbor:"11,keyasint,omitempty"`
	// Partial: states are partial from here on, or not any more (socket only).
	Partial *bool `cbor:"12,keyasint,omitempty"`
	// Of is the name of the node whose agent wrote (state file only).
	Of *string `cbor:"13,keyasint,omitempty"`
	// Policies: the cluster had NetworkPolicies (state file only, with a kernel path).
	Policies *bool `cbor:"14,keyasint,omitempty"`
	// Ranges are those of the flags that were guarded (state file only).
	Ranges *[]netip.Prefix `cbor:"16,keyasint,omitempty"`
	// NodeIPs are those by which the own Node said that it is known, Homes those of its default routes (state file only).
	NodeIPs *[]netip.Addr `cbor:"17,keyasint,omitempty"`
	Homes   *[]netip.Addr `cbor:"18,keyasint,omitempty"`
	// Servers are from where the API server answered (state file only).
	Servers *[]netip.Addr `cbor:"19,keyasint,omitempty"`
	// Answered is when each of Servers last did, in seconds since 1970 (state file only).
	Answered *[]int64 `cbor:"20,keyasint,omitempty"`
	// Dead are the nodes that count as voted dead from here on (socket only).
	Dead *[]string `cbor:"15,keyasint,omitempty"`
	// Sync ends a state: the records before it are one whole.
	Sync *uint64 `cbor:"9,keyasint,omitempty"`
}

// Encoder writes a header, then records.
type Encoder struct {
	w *bufio.Writer
	n uint64
}

// NewEncoder writes the header.
func NewEncoder(w io.Writer) (*Encoder, error) {
	e := &Encoder{w: bufio.NewWriter(w)}
	head := binary.BigEndian.AppendUint32([]byte(magic), Version)
	if _, err := e.w.Write(head); err != nil {
		return nil, fmt.Errorf("write header: %w", err)
	}
	return e, nil
}

// Encode writes one record.
func (e *Encoder) Encode(r Record) error {
	body, err := cbor.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if len(body) > maxRecord {
		return fmt.Errorf("encode record: %d bytes, at most %d are allowed", len(body), maxRecord)
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	head = binary.BigEndian.AppendUint32(head, crc32.Checksum(body, castagnoli))
	if _, err := e.w.Write(append(head, body...)); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	e.n++
	return nil
}

// Sync ends a state and flushes.
func (e *Encoder) Sync() error {
	n := e.n
	if err := e.Encode(Record{Sync: &n}); err != nil {
		return err
	}
	return e.flush()
}

func (e *Encoder) flush() error {
	if err := e.w.Flush(); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}

// Snapshot writes every object of s, without Sync.
func (e *Encoder) Snapshot(s *topology.Snapshot) error {
	if err := e.Encode(Record{CIDRs: &s.ServiceCIDRs}); err != nil {
		return err
	}
	for _, name := range s.Nodes.SortedKeys(strings.Compare) {
		n, _ := s.Nodes.Get(name)
		if err := e.Encode(Record{Node: n}); err != nil {
			return err
		}
	}
	for _, key := range s.Services.SortedKeys(topology.ObjectKey.Compare) {
		entry, _ := s.Services.Get(key)
		if err := e.entry(entry); err != nil {
			return err
		}
	}
	return nil
}

func (e *Encoder) entry(entry *topology.Entry) error {
	if entry.Service != nil {
		if err := e.Encode(Record{Service: entry.Service}); err != nil {
			return err
		}
	}
	for _, slice := range entry.Slices {
		if err := e.Encode(Record{Slice: slice}); err != nil {
			return err
		}
	}
	return nil
}

// Decoder reads what Encoder wrote. It trusts nothing: sizes are bounded
// before memory is taken, and every record has a checksum.
type Decoder struct {
	r *bufio.Reader
	n uint64
}

// NewDecoder reads the header.
func NewDecoder(r io.Reader) (*Decoder, error) {
	d := &Decoder{r: bufio.NewReader(r)}
	head := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(d.r, head); err != nil || string(head[:len(magic)]) != magic {
		return nil, ErrForeign
	}
	switch v := binary.BigEndian.Uint32(head[len(magic):]); {
	case v > Version:
		return nil, fmt.Errorf("%w: format %d, this one reads up to %d", ErrNewer, v, Version)
	case v < Oldest:
		return nil, fmt.Errorf("%w: format %d, this one reads from %d", ErrOlder, v, Oldest)
	}
	return d, nil
}

// Decode returns the next record.
func (d *Decoder) Decode() (Record, error) {
	var head [8]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		return Record{}, fmt.Errorf("%w after record %d", ErrTruncated, d.n)
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size > maxRecord {
		return Record{}, fmt.Errorf("%w: record %d claims %d bytes", ErrCorrupt, d.n, size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(d.r, body); err != nil {
		return Record{}, fmt.Errorf("%w in record %d", ErrTruncated, d.n)
	}
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return Record{}, fmt.Errorf("%w: checksum of record %d", ErrCorrupt, d.n)
	}
	var r Record
	if err := decMode.Unmarshal(body, &r); err != nil {
		return Record{}, fmt.Errorf("%w: record %d: %w", ErrCorrupt, d.n, err)
	}
	if r.Sync != nil && *r.Sync != d.n {
		return Record{}, fmt.Errorf("%w: %d records where %d were written", ErrCorrupt, d.n, *r.Sync)
	}
	d.n++
	return r, nil
}

// end reports an error where anything follows what was read.
func (d *Decoder) end() error {
	if _, err := d.r.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows record %d, its last", ErrCorrupt, d.n-1)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decMode takes what Encoder writes of any object, or one would keep all others
// from who reads: texts that are no UTF-8, and more elements than the largest object that an API server takes.
var decMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{MaxArrayElements: 1 << 18, MaxMapPairs: 1 << 18, MaxNestedLevels: 16, UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		panic(err) // constant options
	}
	return m
}()

// apply puts one record into a builder.
func apply(b *topology.Builder, r Record) {
	switch {
	case r.Service != nil:
		b.SetService(r.Service)
	case r.Slice != nil:
		b.SetSlice(r.Slice)
	case r.Node != nil:
		b.SetNode(r.Node)
	case r.CIDRs != nil:
		b.SetServiceCIDRs(*r.CIDRs)
	case r.DeleteService != nil:
		b.DeleteService(*r.DeleteService)
	case r.DeleteSlice != nil:
		b.DeleteSlice(*r.DeleteSlice)
	case r.DeleteNode != nil:
		b.DeleteNode(*r.DeleteNode)
	}
}
