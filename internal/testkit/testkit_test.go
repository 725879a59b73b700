package testkit

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What nobody listens on refuses, and nobody else can take it; what is free can
// be listened on.
func TestAddresses(t *testing.T) {
	address := Nobody(t)
	if conn, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s: %v, %v", address, conn, err)
	}
	if l, err := net.Listen("tcp", address); err == nil {
		_ = l.Close()
		t.Errorf("%s can be taken", address)
	}
	l, err := net.Listen("tcp", Free(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestHistories(t *testing.T) {
	for text, want := range map[string]uint64{"": 7, "0": 7, "x": 7, "3": 21} {
		t.Setenv("HISTORIES", text)
		if got := Histories(7); got != want {
			t.Errorf("HISTORIES=%s: %d, want %d", text, got, want)
		}
	}
}
