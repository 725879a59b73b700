package told

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// Every is how often a daemon says again what it said before.
	Every = 10 * time.Second
	// Fresh is for how long a word counts: two may be lost, and a daemon may begin anew.
	Fresh = 35 * time.Second
	// MaxSize bounds the file: half of a unit of 5000 nodes with the longest names has room.
	MaxSize = 1 << 20

	version     = 1
	mostMembers = 100_000
	mostName    = 253
)

// Word is what a daemon says.
type Word struct {
	Version int       `json:"version"`
	Node    string    `json:"node"`           // whose daemon it is
	Unit    string    `json:"unit,omitempty"` // its unit; none: nobody is voted on
	Members int       `json:"members"`        // of that
	Written time.Time `json:"written"`        // by the node's clock: each word has another
	Dead    []Dead    `json:"dead"`           // half of the members at most
}

// Dead is a node that is voted dead.
type Dead struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"` // as far as the daemon knows
}

// Names are the names of the dead.
func (w *Word) Names() []string {
	names := make([]string, len(w.Dead))
	for i, d := range w.Dead {
		names[i] = d.Node
	}
	return names
}

// Encode is the file's content.
func (w Word) Encode() ([]byte, error) {
	w.Version = version
	if w.Dead == nil {
		w.Dead = []Dead{}
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(w, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode whom the vote calls dead: %w", err)
	}
	if len(data) >= MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrWord, len(data), MaxSize)
	}
	return append(data, '\n'), nil
}

// ErrWord is of what is no word, or none that a vote gives.
var ErrWord = errors.New("is no word of a health daemon")

// Decode reads a file's content. Fields that it does not know are a newer daemon's.
func Decode(data []byte) (Word, error) {
	if len(data) > MaxSize {
		return Word{}, fmt.Errorf("%w: more than %d bytes", ErrWord, MaxSize)
	}
	var w Word
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&w); err != nil {
		return Word{}, fmt.Errorf("%w: %w", ErrWord, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Word{}, fmt.Errorf("%w: there is more behind it", ErrWord)
	}
	if err := w.check(); err != nil {
		return Word{}, err
	}
	return w, nil
}

// check refuses what no vote says: that the node itself is dead, or more than half of a unit.
func (w *Word) check() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrWord}, args...)...)
	}
	switch {
	case w.Version != version:
		return refuse("version %d, want %d", w.Version, version)
	case w.Members < 0 || w.Members > mostMembers:
		return refuse("members: %d, want 0 to %d", w.Members, mostMembers)
	case 2*len(w.Dead) > w.Members:
		return refuse("dead: %d of %d members, and a vote calls half of them dead at most", len(w.Dead), w.Members)
	case w.Written.IsZero():
		return refuse("written: no time")
	}
	seen := map[string]bool{w.Node: true}
	for _, d := range w.Dead {
		switch {
		case d.Node == "" || len(d.Node) > mostName || strings.ContainsFunc(d.Node, unprintable):
			return refuse("dead: %.64q is no name of a node", d.Node)
		case d.Node == w.Node:
			return refuse("dead: %s, whose own word it is", d.Node)
		case seen[d.Node]:
			return refuse("dead: %s twice", d.Node)
		}
		seen[d.Node] = true
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }
