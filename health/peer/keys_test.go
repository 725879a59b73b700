package peer

import (
	"strings"
	"testing"
)

// The key in SuperEdge's source is nobody's secret: it is refused, and the one before stays.
func TestThePublicKeyIsRefused(t *testing.T) {
	const theirs = "hSZbJsKAVmWTxRPi"
	l := newLab(t, func(c *Config) { c.Legacy = G2 }, "a", "b")
	for _, keys := range [][][]byte{{[]byte(theirs)}, {testKey, []byte(theirs)}} {
		if err := l.nodes["b"].p.SetKeys(keys...); err == nil || !strings.Contains(err.Error(), "SuperEdge's source") {
			t.Error(err)
		}
	}
	if status, _ := l.put(l.addr("a"), "b", edgeHealth{t, G2, theirs}.report("10.77.0.1", "10.77.0.2")); status != 403 {
		t.Errorf("by that key: %d", status)
	}
	l.must("a", "b")
}
