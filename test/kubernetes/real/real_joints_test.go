package real

import "testing"

// Endpoints in their node's own network serve pods of every node, also those
// of the same node: in unit b they are all there is.
func TestHostNetworkEndpoints(t *testing.T) {
	needReal(t)
	deployed(t)
	from, to := deploy(t, "asking", 8080, false), deploy(t, "hosted", 18080, true)
	served(t, from, to)
}
