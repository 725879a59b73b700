package peer

import (
	"errors"
	"net/http"
)

// Errors of Report and Ask that say nothing of the health of the node that was to be reached.
var (
	// ErrNoKey is that this node has no key.
	ErrNoKey = errors.New("no key is known to sign with")
	// ErrNoUnit is that the other node is not in the unit, as far as this one knows.
	ErrNoUnit = errors.New("not in the unit, as far as is known")
	// ErrView is that the other node answers, and that one of the two is another one to the
	// other: under its name a new Node was made. It learns of that once it has an uplink.
	ErrView = errors.New("one of the two is another node to the other, under the same name")
	// ErrNotSent is that as much is under way as may be, and was until there was too little time left.
	ErrNotSent = errors.New("not sent: too much else is under way")
	// ErrRefused is that the other node answers, and refuses for another reason.
	ErrRefused = errors.New("refuses")
)

// refusal is why a request is refused: in the reply, and in the metric.
type refusal string

const (
	noKey     refusal = "no_key"    // this node has none
	noUnit    refusal = "no_unit"   // it does not know who is in it
	unsigned  refusal = "unsigned"  // nobody signed it
	signature refusal = "signature" // it is not of one of the keys
	malformed refusal = "malformed"
	tooLarge  refusal = "too_large"
	receiver  refusal = "receiver" // it was meant for another node
	stranger  refusal = "sender"   // that is in no unit of this node
	address   refusal = "address"  // it comes from one that is not the sender's
	clockOff  refusal = "clock"    // it is old, or of before a restart, or the first
	replayed  refusal = "replayed"
	viewOff   refusal = "view"
	busy      refusal = "busy"      // too much of one sender, or of all who ask
	rate      refusal = "rate"      // too much of a source that nobody signed
	downgrade refusal = "downgrade" // SuperEdge's message in the name of one of ours
)

// refusals are all, each with its status and what people are to do. Those without a cure heal by
// themselves, or are an attack.
var refusals = map[refusal]struct {
	status int
	cure   string
}{
	noKey:     {http.StatusServiceUnavailable, "this node has no key: it is in the file of --key-file (the Secret gridmesh-health), or in SuperEdge's ConfigMap hmac-config"},
	noUnit:    {http.StatusServiceUnavailable, "this node does not know yet who is in its unit"},
	unsigned:  {http.StatusUnauthorized, "a SuperEdge node's message is taken with --legacy alone"},
	signature: {http.StatusForbidden, "the key is another one: all nodes of a unit need the same, in the file of --key-file (the Secret gridmesh-health), or in SuperEdge's ConfigMap hmac-config"},
	malformed: {http.StatusBadRequest, "it is signed, or SuperEdge's, and cannot be read: is it of another version?"},
	tooLarge:  {http.StatusRequestEntityTooLarge, ""},
	receiver:  {http.StatusMisdirectedRequest, "it was meant for another node: do two have one address?"},
	stranger:  {http.StatusForbidden, "the sender is not in this node's unit"},
	address:   {http.StatusForbidden, "it comes from an address that the sender's Node has not: where nodes are behind NAT, --nat takes it"},
	clockOff:  {http.StatusConflict, ""},
	replayed:  {http.StatusConflict, ""},
	viewOff:   {http.StatusConflict, ""},
	busy:      {http.StatusTooManyRequests, ""},
	rate:      {http.StatusTooManyRequests, "more come from there than a node sends, and none of the unit signed them: find out what sends them, as a pod by a node port; nodes that sign are heard all the same"},
	downgrade: {http.StatusForbidden, "it is SuperEdge's, and its sender was gridmesh's: did somebody record it? If SuperEdge runs there again, start gridmesh-health anew here"},
}
