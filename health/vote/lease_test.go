package vote

import "testing"

// A node leads without the Lease, and has the unit say that one that the cloud does not hear is well,
// as stands there already. When it takes the Lease that is written with the next round, though it is
// no other verdict.
func TestTheLeaseIsTakenAfterAVote(t *testing.T) {
	u := of(20, 0)
	cut := u.rank(5)
	u.step(Uplink{true})
	for _, name := range u.view.Names() {
		u.step(Cloud{Node: name, Ready: name != cut, Verdict: Yes})
	}
	asked := 0
	for range 6 {
		out := u.round(nil, allBut("", None))
		asked += len(out.Ask)
		if got := u.vouch(out, cut); len(got) > 0 {
			t.Fatalf("without the Lease it writes %+v", got)
		}
	}
	if !u.leading || asked == 0 {
		t.Fatalf("it leads: %v, and asked %d times", u.leading, asked)
	}
	u.step(Lease{u.now.Add(u.cfg.Every * 2)})
	if got := about(u.vouch(u.round(nil, allBut("", None)), cut), cut); len(got) != 1 || got[0].Verdict != Yes || !got[0].Proof.Exact {
		t.Errorf("with it it writes %+v", got)
	}
	u.step(Lease{u.now.Add(u.cfg.Every * 2)}) // renewed
	if got := u.vouch(u.round(nil, allBut("", None)), cut); len(got) > 0 {
		t.Errorf("and writes again %+v", got)
	}
}
