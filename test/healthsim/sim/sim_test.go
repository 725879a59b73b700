package sim

import (
	"testing"
	"time"
)

// echo is a protocol whose agents call each other, and hold each other for dead at the first
// call that fails.
type echo struct {
	w     *World
	calls int
}

func (e *echo) Start(i int)      { e.w.After(i, time.Second, func() { e.call(i) }) }
func (e *echo) Uplink(int, bool) {}
func (e *echo) call(i int) {
	to := (i + 1) % e.w.Len()
	e.calls++
	e.w.Call(i, to, Call{
		Timeout: 3 * time.Second, Bytes: 100,
		Serve:  func(reply func(int, func())) { reply(50, func() { e.w.Verdict(i, to, false) }) },
		Failed: func() { e.w.Verdict(i, to, true) },
	})
	e.w.After(i, 10*time.Second, func() { e.call(i) })
}

func runEcho(t *testing.T, n int, faults string, d time.Duration) Report {
	t.Helper()
	return Run(Config{Nodes: n, Seed: 1, Faults: MustFaults(faults), Warm: time.Minute, Duration: d}, func(w *World) Protocol { return &echo{w: w} })
}

// A verdict is right of a node that is dead, wrong of one that lives and is reached by more
// than half, and neither of one that the unit cannot reach.
func TestJudge(t *testing.T) {
	for faults, want := range map[string]func(r Report) bool{
		"":         func(r Report) bool { return r.Wrong == 0 && r.CutOff == 0 && r.Missed+len(r.Detected) == 0 },
		"crash":    func(r Report) bool { return r.Wrong == 0 && r.CutOff == 0 && r.Missed == 0 && len(r.Detected) > 5 },
		"halves":   func(r Report) bool { return r.Wrong > 5 && r.CutOff == 0 },
		"thirds":   func(r Report) bool { return r.Wrong > 0 && r.CutOff > 0 },
		"nat=100%": func(r Report) bool { return r.Wrong == 0 && r.CutOff == 10 },
		"freeze":   func(r Report) bool { return r.CutOff > 5 },
		"stall":    func(r Report) bool { return r.Wrong > 5 && r.CutOff == 0 },
		"loss=90%": func(r Report) bool { return r.Wrong > 5 && r.CutOff == 0 },
		"uplink":   func(r Report) bool { return r.Wrong == 0 && r.CutOff == 0 },
	} {
		if r := runEcho(t, 10, faults, time.Hour); !want(r) {
			t.Errorf("%q: %+v", faults, r)
		}
	}
}

// What is sent is counted on both ends: a request and its reply, with the connection's own.
func TestCosts(t *testing.T) {
	r := runEcho(t, 4, "", time.Hour)
	if bytes := float64(100+50+Connection) / 10; r.Sent < 0.199 || r.Sent > 0.201 || r.SentBytes < 0.99*bytes || r.SentBytes > 1.01*bytes || r.Busiest < 0.39 || r.Busiest > 0.41 {
		t.Errorf("%+v: want 0.2 messages and %.1f bytes a second", r, bytes)
	}
}

// TCP sends again what is lost: of a tenth of packets hardly a call fails.
func TestLossOfTCP(t *testing.T) {
	r := runEcho(t, 9, "loss=10%", 10*time.Hour)
	if failed := float64(r.Wrong) / (9 * 3600); failed < 0.005 || failed > 0.06 { // a SYN is sent twice in three seconds: 0.19²
		t.Errorf("%.4f of the calls fail", failed)
	}
}
