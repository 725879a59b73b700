package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// noon is when tests begin.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func issue(t *testing.T, lifetime time.Duration, now time.Time, hosts ...string) Pair {
	t.Helper()
	pair, err := Issue(hosts, lifetime, now)
	return must(t, pair, err)
}

// believed asks as an API server does whether a certificate is the one of a host.
func believed(bundle, cert []byte, host string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	list := parse(cert)
	if len(list) != 1 {
		return fmt.Errorf("%d certificates", len(list))
	}
	_, err := list[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
	return err
}

func TestIssue(t *testing.T) {
	const service = "gridmesh-admission.gridmesh.svc"
	p := issue(t, 90*day, noon, service, "127.0.0.1", "fd00::1")
	for host, want := range map[string]bool{service: true, "127.0.0.1": true, "fd00::1": true, "kubernetes.default.svc": false, "127.0.0.2": false} {
		for when, within := range map[time.Duration]bool{0: true, -skew: true, 90 * day: true, -skew - time.Second: false, 90*day + time.Second: false} {
			if err := believed(p.CA, p.Cert, host, noon.Add(when)); (err == nil) != (want && within) {
				t.Errorf("%s, %s after it was made: %v", host, when, err)
			}
		}
	}
	if err := believed(issue(t, 90*day, noon, service).CA, p.Cert, service, noon); err == nil {
		t.Error("another authority vouches for it")
	}
	cert, err := p.leaf()
	if err != nil {
		t.Fatal(err)
	}
	ca := parse(p.CA)[0]
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() || cert.IsCA || cert.KeyUsage != x509.KeyUsageDigitalSignature || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("the certificate: key %T, authority %v, usage %v %v", cert.PublicKey, cert.IsCA, cert.KeyUsage, cert.ExtKeyUsage)
	}
	if !ca.IsCA || !ca.MaxPathLenZero || ca.KeyUsage != x509.KeyUsageCertSign || !ca.NotAfter.Equal(cert.NotAfter) {
		t.Errorf("the authority: %v, path %d, usage %v, ends %s", ca.IsCA, ca.MaxPathLen, ca.KeyUsage, ca.NotAfter)
	}
}

// What cannot be used is known, and no error says anything of a key.
func TestPairsAreJudged(t *testing.T) {
	good, other := issue(t, day, noon, "a"), issue(t, day, noon, "a")
	broken := append([]byte("-----BEGIN PRIVATE KEY-----\nSECRET"), good.Key[40:]...)
	for what, p := range map[string]Pair{
		"nothing":             {},
		"no authority":        {Cert: good.Cert, Key: good.Key},
		"no key":              {CA: good.CA, Cert: good.Cert},
		"another's key":       {CA: good.CA, Cert: good.Cert, Key: other.Key},
		"another's authority": {CA: other.CA, Cert: good.Cert, Key: good.Key},
		"two authorities":     {CA: slices.Concat(good.CA, other.CA), Cert: good.Cert, Key: good.Key},
		"a broken key":        {CA: good.CA, Cert: good.Cert, Key: broken},
		"half a certificate":  {CA: good.CA, Cert: good.Cert[:len(good.Cert)/2], Key: good.Key},
	} {
		_, err := p.leaf()
		if err == nil || p.valid(noon) {
			t.Errorf("%s: it is taken", what)
		}
		if err != nil && (strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), string(good.Key[40:60]))) {
			t.Errorf("%s: the error tells of the key: %v", what, err)
		}
	}
	if !good.valid(noon) || good.valid(noon.Add(day)) || good.valid(noon.Add(-2*skew)) {
		t.Error("a good pair is not judged by its time")
	}
}

func TestSecretKeepsWhatIsStored(t *testing.T) {
	s := Stored{Now: issue(t, day, noon, "a"), Next: issue(t, day, noon, "b"), Old: slices.Concat(issue(t, day, noon, "c").CA, issue(t, day, noon, "d").CA)}
	for _, want := range []Stored{{}, s, {Now: s.Now}, {Now: s.Now, Next: s.Next}} {
		got := Decode(want.Encode())
		for i, pair := range [][2][]byte{{got.Now.CA, want.Now.CA}, {got.Now.Cert, want.Now.Cert}, {got.Now.Key, want.Now.Key}, {got.Next.CA, want.Next.CA}, {got.Next.Cert, want.Next.Cert}, {got.Next.Key, want.Next.Key}, {got.Old, want.Old}} {
			if !bytes.Equal(pair[0], pair[1]) {
				t.Errorf("part %d is another", i)
			}
		}
	}
	if got := Data(map[string]any{"data": map[string]any{"a": "YQ==", "b": "?", "c": 1, "d": nil, "e": ""}}); len(got) != 1 || string(got["a"]) != "a" {
		t.Errorf("data: %q", got)
	}
}

// A whole rotation, step by step.
func TestRotation(t *testing.T) {
	p := PolicyOf([]string{"a"}, 90*day)
	if p.Renew != 30*day || p.Settle != 5*time.Minute {
		t.Fatalf("policy: %+v", p)
	}
	var s Stored
	live := Live{Bundles: [][]byte{nil, nil}}
	now := noon
	expect := func(want Step) {
		t.Helper()
		if live.Holds(s.Next.CA) && live.Since.IsZero() {
			live.Since = now
		}
		if got := p.Next(s, live, now); got != want {
			t.Fatalf("after %s: %s, want %s", now.Sub(noon), got, want)
		}
		if want == Publish {
			for i := range live.Bundles {
				live.Bundles[i] = s.Bundle(now)
			}
		}
		next, err := p.Do(want, s, now)
		if s = must(t, next, err); want == Promote {
			live.Since = time.Time{}
		}
	}
	expect(Begin)
	first := s.Now
	expect(Publish)
	expect(Rest)
	live.Bundles[1] = nil // somebody took it away
	expect(Publish)
	now = now.Add(60*day - time.Second)
	expect(Rest)
	now = now.Add(time.Second)
	expect(Prepare)
	if !bytes.Equal(s.Now.Cert, first.Cert) {
		t.Error("the next one serves already")
	}
	expect(Publish)
	if n := len(parse(live.Bundles[0])); n != 2 {
		t.Errorf("%d authorities overlap", n)
	}
	expect(Rest)
	now = now.Add(p.Settle - time.Second)
	expect(Rest)
	now = now.Add(time.Second)
	expect(Promote)
	if !bytes.Equal(parse(s.Old)[0].Raw, parse(first.CA)[0].Raw) || bytes.Equal(s.Now.Cert, first.Cert) {
		t.Error("the one before is not kept, or serves")
	}
	expect(Publish) // the order is another: who serves is first
	expect(Rest)
	now = noon.Add(90 * day)
	expect(Publish) // the first authority has ended
	if n := len(parse(live.Bundles[0])); n != 1 {
		t.Errorf("%d authorities are left", n)
	}
	p.Hosts = []string{"b"}
	for _, want := range []Step{Prepare, Publish, Rest} {
		expect(want)
	}
	now = now.Add(p.Settle)
	expect(Promote)
	if leaf := parse(s.Now.Cert)[0]; !slices.Equal(leaf.DNSNames, p.Hosts) {
		t.Errorf("it is for %q", leaf.DNSNames)
	}
	now = now.Add(300 * day) // nobody was there
	expect(Begin)
}

// Without a configuration nobody asks; the certificate is kept good all the same.
func TestWithoutConfiguration(t *testing.T) {
	p := PolicyOf([]string{"a"}, 90*day)
	var s Stored
	for _, c := range []struct {
		after time.Duration
		want  Step
	}{{0, Begin}, {time.Hour, Rest}, {60 * day, Prepare}, {61 * day, Rest}, {90 * day, Promote}, {91 * day, Rest}} {
		now := noon.Add(c.after)
		step := p.Next(s, Live{}, now)
		if step != c.want {
			t.Errorf("after %s: %s, want %s", c.after, step, c.want)
		}
		next, err := p.Do(step, s, now)
		s = must(t, next, err)
	}
}

// What breaks in the Secret is made anew, beside what serves where that is good.
func TestBrokenSecret(t *testing.T) {
	p := PolicyOf([]string{"a"}, 90*day)
	good, next := issue(t, 90*day, noon, "a"), issue(t, 90*day, noon, "a")
	odd := []byte("?")
	for what, c := range map[string]struct {
		s    Stored
		want Step
	}{
		"all of it":         {Stored{Now: Pair{odd, odd, odd}, Next: Pair{odd, odd, odd}, Old: odd}, Begin},
		"what serves":       {Stored{Now: Pair{good.CA, good.Cert, odd}, Next: next}, Promote},
		"what serves alone": {Stored{Now: Pair{good.CA, good.Cert, odd}}, Begin},
		"the next one":      {Stored{Now: issue(t, 20*day, noon, "a"), Next: Pair{next.CA, next.Cert, odd}}, Prepare},
	} {
		live := Live{Bundles: [][]byte{c.s.Bundle(noon)}}
		if got := p.Next(c.s, live, noon); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
		after, err := p.Do(c.want, c.s, noon)
		if err != nil || !after.Now.valid(noon) {
			t.Errorf("%s: after it nothing good serves (%v)", what, err)
		}
	}
}

// past is one value after another, each with its time: who lags sees an older one.
type past[T any] struct {
	at   []time.Time
	were []T
}

func (p *past[T]) add(at time.Time, v T) { p.at, p.were = append(p.at, at), append(p.were, v) }

func (p *past[T]) seen(at time.Time) (v T, ok bool) {
	for i := len(p.at) - 1; i >= 0; i-- {
		if !p.at[i].After(at) {
			return p.were[i], true
		}
	}
	return v, false
}

// often is one history in so many steps: between two of them is most of the time little, for
// what is a moment too early is seen then alone, and now and then much.
func often(r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(2*time.Minute) >> r.IntN(5)))
}

// Whoever lags, less than Settle, and whoever crashes between two steps: an API server
// that believed a replica once believes every one, over years. Leaders come and go and
// forget when they saw what; hosts change.
func TestEverybodyIsBelieved(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := PolicyOf([]string{"a", "always"}, 90*day)
		var s Stored
		live := Live{Bundles: [][]byte{nil, nil}}
		var served, bundles past[[]byte]
		begun, good := time.Time{}, map[string]time.Time{} // until when who meets whom is not asked again
		now, rotations := noon, 0
		for now.Before(noon.Add(2 * 365 * day)) {
			now = now.Add(often(r))
			if s.Next.Cert == nil && r.IntN(3) == 0 { // little happens then
				now = now.Add(time.Duration(r.Int64N(int64(20 * day))))
			}
			if r.IntN(30) == 0 {
				p.Hosts = []string{fmt.Sprint("h", r.IntN(3)), "always"}
			}
			if live.Holds(s.Next.CA) && live.Since.IsZero() || r.IntN(10) == 0 { // another leader sees it now
				live.Since = now
			}
			if !live.Holds(s.Next.CA) {
				live.Since = time.Time{}
			}
			step := p.Next(s, live, now)
			if step == Begin && !begun.IsZero() {
				t.Fatalf("seed %d: begins again after %s", seed, now.Sub(noon))
			}
			if step == Publish {
				for i := range live.Bundles {
					live.Bundles[i] = s.Bundle(now)
				}
				bundles.add(now, live.Bundles[0])
				if begun.IsZero() {
					begun = now
				}
			}
			next, err := p.Do(step, s, now)
			s = must(t, next, err)
			if step == Begin || step == Promote {
				served.add(now, s.Now.Cert)
				rotations++
			}
			replica := time.Duration(r.Int64N(int64(12*time.Hour))) * time.Duration(r.IntN(2))
			cert, _ := served.seen(now.Add(-replica))
			for _, server := range []time.Duration{0, p.Settle - 1, time.Duration(r.Int64N(int64(p.Settle)))} {
				bundle, heard := bundles.seen(now.Add(-server))
				met := string(bundle) + string(cert)
				if begun.IsZero() || !heard || cert == nil || now.Before(good[met]) {
					continue
				}
				good[met] = now.Add(time.Hour)
				if err := believed(bundle, cert, "always", now); err != nil {
					t.Fatalf("seed %d: after %s, %d rotations, a replica %s and an API server %s behind: %v", seed, now.Sub(noon), rotations, replica, server, err)
				}
			}
		}
		if rotations < 10 {
			t.Errorf("seed %d: only %d rotations", seed, rotations)
		}
	}
}

// What a stranger wrote into the Secret is no crash.
func FuzzDecode(f *testing.F) {
	pair, err := Issue([]string{"a"}, day, noon)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pair.Cert, pair.Key, pair.CA)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"), []byte("?"), []byte(nil))
	p := PolicyOf([]string{"a"}, 90*day)
	f.Fuzz(func(t *testing.T, cert, key, ca []byte) {
		data := map[string]any{}
		for name, value := range map[string][]byte{KeyCert: cert, KeyKey: key, KeyCA: ca, KeyNextCert: cert, KeyNextKey: key, KeyNextCA: ca} {
			data[name] = base64.StdEncoding.EncodeToString(value)
		}
		s := Decode(Data(map[string]any{"data": data}))
		step := p.Next(s, Live{Bundles: [][]byte{ca}}, noon)
		next, err := p.Do(step, s, noon)
		if err != nil || (step == Begin || step == Promote) && !next.Now.valid(noon) {
			t.Errorf("%s: %v", step, err)
		}
	})
}

// A pair that waited for long serves all the same: were it made anew each time that it is
// due itself, none would.
func TestWhatWaitedServes(t *testing.T) {
	p := PolicyOf([]string{"a"}, 90*day)
	s := Stored{Now: issue(t, 100*day, noon, "a"), Next: issue(t, 90*day, noon, "a")}
	now := noon.Add(80 * day)
	live := Live{Bundles: [][]byte{s.Bundle(now)}, Since: now.Add(-p.Settle)}
	if got := p.Next(s, live, now); got != Promote {
		t.Errorf("%s, want %s", got, Promote)
	}
	if p.Hosts = []string{"b"}; p.Next(s, live, now) != Prepare {
		t.Errorf("of other hosts: %s", p.Next(s, live, now))
	}
}
