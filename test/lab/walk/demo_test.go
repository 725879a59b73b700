package walk

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// README's first command, told once beside a process that spins, tells its story
// to the end and leaves nothing behind.
func TestDemo(t *testing.T) {
	l := &lab{t: t, name: fmt.Sprintf("walk-demo-%d", os.Getpid()), tmp: t.TempDir()}
	start := time.Now()
	out, code := l.does(words("soak --runs 1 --spin 1")...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	t.Logf("%s:\n%s", time.Since(start).Round(100*time.Millisecond), out)
}
