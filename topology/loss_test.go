package topology_test

import (
	"encoding/json"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// Each loss has a word of its own in JSON, and one of a later version is a loss all the same.
func TestLossesAreWords(t *testing.T) {
	words := []string{"", "value", "field", "all", "newer", "rest"}
	for i, word := range words {
		text, err := json.Marshal(topology.Loss(i))
		var back topology.Loss
		if err != nil || string(text) != `"`+word+`"` || json.Unmarshal(text, &back) != nil || back != topology.Loss(i) {
			t.Errorf("loss %d is %s, and read again %d; want %q", i, text, back, word)
		}
	}
	later, err := json.Marshal(topology.Loss(len(words)))
	var back topology.Loss
	if err != nil || json.Unmarshal(later, &back) != nil || back == topology.LostNothing {
		t.Errorf("one of a later version is %s, and read %d", later, back)
	}
}
