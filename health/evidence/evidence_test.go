package evidence

import (
	"errors"
	"testing"
	"time"
)

func TestEvidence(t *testing.T) {
	e := Evidence{Yes: 3, No: 1, Of: 5, Exact: true, Cut: true, View: "0a1b", By: "a-2", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	const text = "yes=3 no=1 of=5 exact=true cut=true view=0a1b by=a-2 at=2026-01-02T03:04:05Z"
	if got := e.String(); got != text {
		t.Errorf("%s, want %s", got, text)
	}
	if got, err := Parse(text + " later=too"); got != e || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, e)
	}
	for _, wrong := range []string{"", "yes", "yes=1", "yes=1 no=0 of=-1", "yes=1 no=0 of=2 yes=2", "yes=1 no=0 of=2 cut=perhaps", "yes=1 no=0 of=2 at=noon", "yes=99999999999 no=0 of=2"} {
		if got, err := Parse(wrong); !errors.Is(err, ErrMalformed) || got != (Evidence{}) {
			t.Errorf("%q: %+v, %v", wrong, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("yes=3 no=1 of=5 exact=true cut=true view=0a1b by=a-2 at=2026-01-02T03:04:05Z")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		if again, err := Parse(e.String()); err != nil || again != e {
			t.Errorf("%q is %+v, and that is read as %+v, %v", s, e, again, err)
		}
	})
}
