package testkit

import (
	"bytes"
	"strings"
	"sync"
)

// Output is what a program or a log wrote so far, to be read while it is written.
// Under testing/synctest a bytes.Buffer will not do: Wait orders what others did
// before it, and nothing what they do after.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Count is how often a text was written.
func (o *Output) Count(text string) int { return strings.Count(o.String(), text) }
