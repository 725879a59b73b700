package nft

import (
	"errors"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Namespaced(m.Run) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// After an error nothing of what was asked before is taken for an answer to
// what is asked next, and nothing that was to be sent with it is sent later.
func TestSessionBeginsAnewAfterAnError(t *testing.T) {
	testkit.NewNetwork(t)
	s := Open()
	defer s.Close()
	table := func(name string) *nftables.Table {
		return &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
	}
	count := func(want int) {
		t.Helper()
		list, err := s.ListTablesOfFamily(nftables.TableFamilyINet)
		if err != nil || len(list) != want {
			t.Fatalf("%d tables and %v, want %d", len(list), err, want)
		}
	}
	for range 3 {
		s.AddTable(table("kept"))
		must(t, s.Flush())
		count(1)

		s.AddTable(table("with what fails"))
		s.DelTable(table("nobody's"))
		s.AddTable(table("after what fails"))
		if err := s.Flush(); !errors.Is(err, unix.ENOENT) {
			t.Fatalf("a table that is not there was removed: %v", err)
		}
		count(1)

		if _, err := s.GetSetElements(&nftables.Set{Table: table("kept"), Name: "nobody's"}); err == nil {
			t.Fatalf("a set that is not there was read")
		}
		count(1)

		s.AddTable(table("left behind"))
		if err := s.SetAddElements(&nftables.Set{Table: table("kept"), Anonymous: true}, nil); err == nil {
			t.Fatal("an anonymous set has new elements")
		}
		must(t, s.Flush())
		count(1)

		s.AddTable(table("left behind"))
		if err := s.AddSet(&nftables.Set{Table: table("kept"), Anonymous: true}, nil); err == nil {
			t.Fatal("an anonymous set may change")
		}
		must(t, s.Flush())
		count(1)

		if _, err := s.ask(0xff, 0, nftables.TableFamilyINet, nil); err == nil {
			t.Fatal("a message that is none has an answer")
		}
		if _, err := s.Generation(); err != nil {
			t.Fatal(err)
		}
		s.DelTable(table("kept"))
		must(t, s.Flush())
		count(0)
	}
	// Without its sockets it goes on with one for each question.
	s.Close()
	s.AddTable(table("kept"))
	must(t, s.Flush())
	count(1)
}
