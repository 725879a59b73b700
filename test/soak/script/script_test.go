package script

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// A list follows from its seed, is in order, can be printed and read again,
// and ends with calm.
func TestGenerate(t *testing.T) {
	w := Small()
	for seed := range uint64(20) {
		length := time.Duration(1+seed*5) * time.Second
		steps := Generate(seed, w, length)
		if !reflect.DeepEqual(steps, Generate(seed, w, length)) {
			t.Fatalf("seed %d gave two lists", seed)
		}
		again, err := Parse(w, Print(steps))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if Print(again) != Print(steps) {
			t.Fatalf("seed %d was read as another list:\n%s\n%s", seed, Print(steps), Print(again))
		}
		if last := steps[len(steps)-1]; last.Verb != Calm || last.At != length {
			t.Errorf("seed %d ends with %s", seed, last)
		}
		if !slices.IsSortedFunc(steps, func(a, b Step) int { return int(a.At - b.At) }) {
			t.Errorf("seed %d is out of order:\n%s", seed, Print(steps))
		}
		for _, s := range steps {
			if _, broken := knownBroken[s.Verb]; broken {
				t.Errorf("seed %d has %s", seed, s)
			}
		}
	}
	if Print(Generate(1, w, time.Minute)) == Print(Generate(2, w, time.Minute)) {
		t.Error("two seeds gave one list")
	}
}

// Every verb that is not left out comes, and what is left out has a reason.
func TestVerbsCome(t *testing.T) {
	count := map[string]int{}
	for _, s := range Generate(1, Small(), time.Hour) {
		count[s.Verb]++
	}
	for _, v := range verbs {
		if _, broken := knownBroken[v.name]; count[v.name] == 0 && !broken {
			t.Errorf("%s never comes", v.name)
		}
	}
	for name, why := range knownBroken {
		if _, ok := find(name); !ok || why == "" {
			t.Errorf("%q is left out, and is no verb or has no reason", name)
		}
	}
}

func TestParse(t *testing.T) {
	steps, err := Parse(Small(), "2s flush a-1 # twice\n\n# nothing\n1.5s slice x0 a-1,b-2!,c-1~?\n3s cut-uplink a 5m0s\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := "1.5s slice x0 a-1,b-2!,c-1~?\n2s flush a-1\n3s cut-uplink a 5m0s\n"; Print(steps) != want {
		t.Errorf("read as\n%s", Print(steps))
	}
	if got := fmt.Sprint(Endpoints(steps[0].Args[1])); got != "[{a-1 false false false} {b-2 true false false} {c-1 false true true}]" {
		t.Errorf("endpoints are %s", got)
	}
	if got := []time.Duration{steps[0].For(), steps[2].For()}; got[0] != 0 || got[1] != 5*time.Minute {
		t.Errorf("they last %s", got)
	}
	for line, want := range map[string]string{
		"flush":                  "no step",
		"x flush a-1":            "no time",
		"-1s flush a-1":          "no time",
		"1s explode a-1":         "no verb",
		"1s flush":               "0 arguments: say flush NODE",
		"1s flush z-9":           `"z-9" is no NODE`,
		"1s kill kubelet a-1 2s": `"kubelet" is no agent|envoy|dns`,
		"1s freeze a-1 0s":       "is no TIME",
		"1s freeze a-1 1000h":    "is no TIME",
		"1s slice x0 a-1,a-1":    "is no NODE[!~?],...",
		"1s slice x0 ,":          "is no NODE[!~?],...",
		"1s ports s0 alt":        `"alt" is no PORTS`,
		"1s rollout g0 0% 1s -":  `"0%" is no none|SIZE: say rollout GRID none|SIZE PAUSE ORDER`,
		"1s pause g0":            "1 arguments: say pause GRID TIME",
	} {
		if _, err := Parse(Small(), "1s calm\n"+line); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v, want line 2 and %q", line, err, want)
		}
	}
}

// What fails by two steps shrinks to the two, whatever is around them, in a
// bounded number of runs.
func TestShrink(t *testing.T) {
	w := Small()
	for seed := range uint64(6) {
		steps := Generate(seed, w, 2*time.Minute)
		a, b := steps[len(steps)/3].String(), steps[len(steps)*2/3].String()
		text := func(s Step) string { _, rest, _ := strings.Cut(s.String(), " "); return rest }
		_, a, _ = strings.Cut(a, " ")
		_, b, _ = strings.Cut(b, " ")
		runs := 0
		fails := func(list []Step) bool {
			runs++
			has := func(want string) bool { return slices.ContainsFunc(list, func(s Step) bool { return text(s) == want }) }
			return has(a) && has(b)
		}
		got := Shrink(steps, 1000, fails)
		if want := 2; len(got) > want {
			t.Errorf("seed %d shrank to %d steps:\n%s", seed, len(got), Print(got))
		}
		if got[len(got)-1].At > 2*squeezed {
			t.Errorf("seed %d was not squeezed:\n%s", seed, Print(got))
		}
		runs = 0
		if got := Shrink(steps, 5, fails); runs > 5 || !fails(got) {
			t.Errorf("seed %d: %d runs, and what is left fails: %v", seed, runs, fails(got))
		}
	}
	never := Generate(1, w, time.Minute)
	if got := Shrink(never, 100, func([]Step) bool { return false }); !reflect.DeepEqual(got, never) {
		t.Error("what never fails again was shrunk")
	}
}

func TestUntil(t *testing.T) {
	steps := Generate(1, Small(), time.Minute)
	if got := Until(steps, 30*time.Second); len(got) == 0 || len(got) == len(steps) || got[len(got)-1].At > 30*time.Second || steps[len(got)].At <= 30*time.Second {
		t.Errorf("%d of %d steps", len(got), len(steps))
	}
	if got := Until(steps, time.Hour); len(got) != len(steps) {
		t.Errorf("%d of %d steps", len(got), len(steps))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Print(Generate(1, Small(), time.Minute)))
	f.Add("1s slice x0 -")
	f.Add("1s grid g0 2\n2s rollout g0 50% 1s b,a\n3s version g0 canary v1\n4s template g0 c canary\n5s pause g0 4s\n6s ungrid g0")
	f.Add("1s ports s0 main,alt,udp\n2s type s0 NodePort\n3s affinity s0 30s\n4s networkpolicy n0 client 2m30s")
	f.Fuzz(func(t *testing.T, text string) {
		steps, err := Parse(Small(), text)
		if err != nil {
			return
		}
		again, err := Parse(Small(), Print(steps))
		if err != nil || Print(again) != Print(steps) {
			t.Errorf("%q is read as %q, and that as %q: %v", text, Print(steps), Print(again), err)
		}
	})
}
