package nft

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func told(msg int, attrs ...nl.Attribute) nl.Message {
	data, err := nl.MarshalAttributes(attrs)
	if err != nil {
		panic(err)
	}
	return nl.Message{Header: nl.Header{Type: Message(msg)}, Data: append(Header(nftables.TableFamilyINet), data...)}
}

// Only transactions of which all was told, and nothing is of ours, are passed over.
func TestFollowerPassesOverOthers(t *testing.T) {
	const last = math.MaxUint32
	type transaction struct {
		gen  uint32
		ours bool
	}
	for name, tc := range map[string]struct {
		begin     uint32
		told      []transaction
		gen, want uint32
	}{
		"nothing":                   {7, nil, 7, 7},
		"somebody else's":           {7, []transaction{{8, false}, {9, false}}, 7, 9},
		"ours":                      {7, []transaction{{8, true}}, 7, 7},
		"ours between":              {7, []transaction{{8, false}, {9, true}, {10, false}}, 7, 7},
		"after ours":                {7, []transaction{{8, false}, {9, true}, {10, false}}, 9, 10},
		"some were lost":            {7, []transaction{{8, false}, {10, false}, {11, false}}, 7, 7},
		"after those that were":     {7, []transaction{{8, false}, {10, false}, {11, false}}, 10, 11},
		"what began before":         {7, []transaction{{7, false}, {8, false}}, 7, 8},
		"what began before is ours": {7, []transaction{{7, true}, {8, false}}, 7, 8},
		"newer than all":            {7, []transaction{{8, false}}, 12, 12},
		"unknown":                   {7, []transaction{{8, false}}, 0, 0},
		"around the end":            {last, []transaction{{1, false}, {2, false}}, last, 2},
		"around the end, ours":      {last - 1, []transaction{{last, true}, {1, false}}, last - 1, last - 1},
	} {
		f := &Follower{clean: tc.begin, last: tc.begin, concerns: func(nl.Message) bool { return true }}
		for _, tx := range tc.told {
			if tx.ours {
				f.take(told(unix.NFT_MSG_NEWRULE))
			}
			f.take(told(unix.NFT_MSG_NEWGEN, nl.Attribute{Type: unix.NFTA_GEN_ID, Data: binary.BigEndian.AppendUint32(nil, tx.gen)}))
		}
		if got := f.after(tc.gen); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// What the kernel tells leads to the generation that it says, and more than fits
// its buffer to none.
func TestFollowerOnTheKernel(t *testing.T) {
	testkit.NewNetwork(t)
	s := Open()
	defer s.Close()
	f, err := Follow(s, func(m nl.Message) bool {
		e, err := parseEntry(m)
		return err != nil || e.string(unix.NFTA_TABLE_NAME) == "ours"
	})
	must(t, err)
	defer f.Close()
	generation := func() uint32 {
		gen, err := s.Generation()
		must(t, err)
		return gen
	}
	table := func(name string) *nftables.Table {
		return &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
	}
	write := func(name string) {
		s.AddTable(table(name))
		s.DelTable(table(name))
		must(t, s.Flush())
	}
	begin := generation()
	for range 3 {
		write("theirs")
	}
	if got := f.After(begin); got != generation() || got == begin {
		t.Errorf("from %d to %d, want %d", begin, got, generation())
	}
	write("ours")
	if got := f.After(begin); got == generation() {
		t.Error("what is ours was passed over")
	}
	begin = generation()
	must(t, f.conn.SetReadBuffer(1))
	for range 200 {
		write("theirs")
	}
	if got := f.After(begin); got == generation() {
		t.Error("what was lost was passed over")
	}
	begin = generation()
	f.After(begin)
	write("theirs") // after which all is known again
	begin = generation()
	f.After(begin)
	write("theirs")
	if got := f.After(begin); got != generation() {
		t.Errorf("after a loss: from %d to %d, want %d", begin, got, generation())
	}
}

// A number that waited from before the loss does not make up for it, and neither
// does one that comes without its messages after.
func TestFollowerAfterALoss(t *testing.T) {
	f := &Follower{clean: 7, last: 7, concerns: func(nl.Message) bool { return true }}
	number := func(gen uint32) {
		f.take(told(unix.NFT_MSG_NEWGEN, nl.Attribute{Type: unix.NFTA_GEN_ID, Data: binary.BigEndian.AppendUint32(nil, gen)}))
	}
	expect := func(when string, gen, want uint32) {
		t.Helper()
		if got := f.after(gen); got != want {
			t.Errorf("%s: after %d comes %d, want %d", when, gen, got, want)
		}
	}
	f.lose()
	number(8)
	number(9)
	expect("taken from before the loss", 7, 7)
	expect("taken from before the loss", 8, 8)
	f.drained = f.lost // as drain does where nothing waits
	expect("all is taken", 9, 9)
	number(10) // of which the rest may be what was lost
	expect("the first number after it", 9, 9)
	number(11)
	expect("read before it", 9, 9)
	expect("read after it", 10, 11)
}
