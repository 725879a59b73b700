package outage

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// The record, as it is on disk. What older agents wrote, and what is no record,
// tells of an outage and no more.
func TestTheRecordOnDisk(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Record{Since: at, LastContact: at.Add(time.Minute), Holding: true, Boot: "a-boot", Past: hold.Past{Age: time.Second, Held: []hold.Since{{
		Endpoint: hold.Endpoint{Service: topology.ObjectKey{Namespace: "default", Name: "web"}, Addr: netip.MustParseAddr("10.0.0.1"), Node: "a-1"}, For: time.Minute,
	}}}}
	const text = `{"since":"2026-01-02T03:04:05Z","lastContact":"2026-01-02T03:05:05Z","holding":true,"past":{"age":1000000000,"held":[` +
		`{"service":{"Namespace":"default","Name":"web"},"addr":"10.0.0.1","node":"a-1","for":60000000000}]}}` + "\na-boot\n"
	if got := string(want.Encode()); got != text {
		t.Errorf("written as %s", got)
	}
	if got := DecodeRecord([]byte(text)); !reflect.DeepEqual(got, want) {
		t.Errorf("read as %+v", got)
	}
	for name, data := range map[string]string{
		"of an older agent": "2026-01-02T03:04:05Z\na-boot\n", "damaged": strings.Replace(text, "age", `"`, 1), "another thing": "[]\na-boot", "of a newer one": `{"held":3,"past":{"age":"1s"}}` + "\na-boot",
	} {
		if got := DecodeRecord([]byte(data)); !reflect.DeepEqual(got, Record{Boot: "a-boot"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for n := range text { // cut off
		DecodeRecord([]byte(text[:n]))
	}
	if got := DecodeRecord(bytes.Repeat([]byte{0}, 100)); !reflect.DeepEqual(got.Past, hold.Past{}) {
		t.Errorf("zeroes: %+v", got)
	}
	for name, tc := range map[string]struct {
		o     Record
		later time.Duration
		want  hold.Past
	}{
		"goes on":        {want, 3 * time.Second, want.Past.After(3 * time.Second)},
		"another outage": {want, After, want.Past.After(RecordEvery).Interrupted()},
		"a clock went":   {want, -time.Hour, want.Past.After(RecordEvery).Interrupted()},
		"in an outage":   {Record{LastContact: want.LastContact, Past: want.Past}, time.Second, want.Past.Interrupted()},
		"nothing noted":  {Record{}, 0, hold.Past{}},
	} {
		if got := tc.o.PastAt(tc.o.LastContact.Add(tc.later)); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// Whatever is on disk, a hold ends in its time.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"since":"2026-01-02T03:04:05Z","lastContact":"2026-01-02T03:05:05Z","holding":true,"past":{"age":1000000000,"held":[{"for":9}]}}` + "\na-boot\n"))
	f.Add([]byte(`{"lastContact":"2026-01-02T03:05:05Z","holding":true,"past":{"age":-9223372036854775808,"held":[{"for":-1}]}}`))
	f.Add([]byte("2026-01-02T03:04:05Z\na-boot\n"))
	objects, now := nodetest.NewObjects(), time.Date(2026, 1, 2, 3, 5, 6, 0, time.UTC)
	objects.Closed("web", "10.96.0.10", map[string]string{"a-1": "10.244.1.5", "a-2": "10.244.2.5"})
	base := objects.Snapshot()
	f.Fuzz(func(t *testing.T, data []byte) {
		o := DecodeRecord(data)
		h := hold.New(hold.Start{Base: base, Node: "a-1", Began: now, Past: o.PastAt(now)})
		if end := h.End(); end.After(now.Add(hold.Bound)) {
			t.Errorf("held until %s by %+v", end, o)
		}
		DecodeRecord(o.Encode())
	})
}
