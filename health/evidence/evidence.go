// Package evidence is what a verdict rests on, as the annotation superedgehealth/evidence of
// a Node says it: for people, and for who decides in the cloud. It is pure.
//
//	yes=3 no=0 of=4 exact=true cut=true view=0a1b2c3d by=a-2 at=2026-01-02T03:04:05Z
package evidence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Evidence is what one verdict rests on.
type Evidence struct {
	Yes, No, Of int
	Exact       bool      // the whole unit was asked, and not only who observes the node
	Cut         bool      // the node says that it has no uplink
	View        string    // of who was in the unit
	By          string    // the node that wrote it
	At          time.Time // by the clock of that one, which may be wrong
}

// String is the annotation.
func (e Evidence) String() string {
	return fmt.Sprintf("yes=%d no=%d of=%d exact=%t cut=%t view=%s by=%s at=%s", e.Yes, e.No, e.Of, e.Exact, e.Cut, e.View, e.By, e.At.UTC().Format(time.RFC3339))
}

// longest is of an annotation that somebody may have written.
const longest = 1024

// ErrMalformed says that an annotation is none of this package's.
var ErrMalformed = errors.New("malformed evidence")

// Parse reads an annotation. Keys that it does not know are of later versions.
func Parse(s string) (e Evidence, err error) {
	if len(s) > longest {
		return e, fmt.Errorf("%w: %d bytes, %d at most", ErrMalformed, len(s), longest)
	}
	var errs []error
	had := map[string]bool{}
	for _, field := range strings.Fields(s) {
		key, value, ok := strings.Cut(field, "=")
		if !ok || had[key] {
			return Evidence{}, fmt.Errorf("%w: %q", ErrMalformed, field)
		}
		had[key] = true
		errs = append(errs, e.set(key, value))
	}
	if err := errors.Join(errs...); err != nil {
		return Evidence{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if !had["yes"] || !had["no"] || !had["of"] {
		return Evidence{}, fmt.Errorf("%w: yes, no and of are needed", ErrMalformed)
	}
	return e, nil
}

func (e *Evidence) set(key, value string) (err error) {
	switch key {
	case "yes":
		e.Yes, err = count(value)
	case "no":
		e.No, err = count(value)
	case "of":
		e.Of, err = count(value)
	case "exact":
		e.Exact, err = strconv.ParseBool(value)
	case "cut":
		e.Cut, err = strconv.ParseBool(value)
	case "view":
		e.View = value
	case "by":
		e.By = value
	case "at":
		e.At, err = moment(value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func moment(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	t = t.UTC().Truncate(time.Second)
	if err == nil && (t.Year() < 1 || t.Year() > 9999) {
		err = fmt.Errorf("%q is no time of RFC 3339 in UTC", s)
	}
	return t, err
}

func count(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of nodes", s)
	}
	return int(n), nil
}
