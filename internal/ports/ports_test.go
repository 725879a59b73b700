package ports

import "testing"

// The offsets are a contract between versions: rules in force lead to the
// listeners of an agent before.
func TestPorts(t *testing.T) {
	p := Default()
	if got, want := [...]uint16{p.Keep(), p.Plain(), p.RedirectKeep(), p.RedirectPlain(), p.Health()}, [...]uint16{15001, 15002, 15003, 15004, 15009}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// All of them are reserved, the last one too.
func TestAll(t *testing.T) {
	if all := Default().All(); len(all) != reserved || all[0] != Default().Keep() || all[reserved-1] != Default().Health() {
		t.Errorf("got %v", all)
	}
}

func TestValidate(t *testing.T) {
	for base, valid := range map[uint16]bool{0: false, 1: true, 15001: true, 65527: true, 65528: false} {
		if err := (Ports{base}).Validate(); (err == nil) != valid {
			t.Errorf("%d: %v", base, err)
		}
	}
}
