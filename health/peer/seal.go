package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// header has the signature of a request or of a reply.
const header = "Gridmesh-Hmac2"

// What is signed begins with a key made for that alone, so that no signature passes for one
// of another kind, nor for SuperEdge's with the same key.
const (
	forRequests = "gridmesh node health 1: requests"
	forReplies  = "gridmesh node health 1: replies"
)

// key is one of the unit, with those made of it.
type key struct{ raw, request, reply []byte }

func newKey(raw []byte) key {
	raw = append([]byte(nil), raw...)
	return key{raw, sum(raw, []byte(forRequests)), sum(raw, []byte(forReplies))}
}

func sum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// ofRequest is the signature of a request. Method and path are our own constants, without a line's end.
func (k key) ofRequest(method, path string, body []byte) []byte {
	return sum(k.request, []byte(method+" "+path+"\n"), body)
}

// ofReply is the signature of the reply to a request. A nonce has always the same length.
func (k key) ofReply(path, nonce string, status int, body []byte) []byte {
	return sum(k.reply, []byte(path+"\n"+nonce+"\n"+strconv.Itoa(status)+"\n"), body)
}

// signed returns the key by which a signature is of(key), in time that does not tell how much of it is.
func signed(keys []key, signature string, of func(key) []byte) (by key, ok bool) {
	given, err := hex.DecodeString(signature)
	if err != nil || len(given) != sha256.Size { // what cannot be signed has no signature, and is not equal to none
		return by, false
	}
	for _, k := range keys {
		if hmac.Equal(given, of(k)) && !ok {
			by, ok = k, true
		}
	}
	return by, ok
}

// mostKeys is how many there are while one is changed for another.
const mostKeys = 2

func newKeys(raw [][]byte) ([]key, error) {
	if len(raw) > mostKeys {
		return nil, fmt.Errorf("%d keys: two at most, the one that signs and the one before or after it", len(raw))
	}
	keys := make([]key, 0, len(raw))
	for _, r := range raw {
		if len(r) == 0 {
			return nil, errors.New("a key that is empty")
		}
		if Public(r) {
			return nil, errors.New("a key that is in SuperEdge's source, by which everybody may speak for every node: make another one")
		}
		keys = append(keys, newKey(r))
	}
	return keys, nil
}

// shortKey has fewer bytes than anybody can be kept from trying.
const shortKey = 16

// public is the SHA-256 of the key that is in SuperEdge's source, which its nodes use where
// they have none.
const public = "445c2eb9be15e6deb8cbc74ea4bf0923ef992f0d8830acef468891c3f8ef1be7"

// Public reports whether a key is the one in SuperEdge's source. It is refused, for by it
// anybody could have a node voted dead; a SuperEdge node takes another one without a restart.
func Public(raw []byte) bool {
	of := sha256.Sum256(raw)
	return hex.EncodeToString(of[:]) == public
}

// Weak is why a key can be guessed; empty where it cannot.
func Weak(raw []byte) string {
	if len(raw) < shortKey {
		return fmt.Sprintf("it has %d bytes: it can be guessed; %d random ones are the least", len(raw), shortKey)
	}
	return ""
}

// nonceLength is that of its text.
const nonceLength = 2 * nonceBytes

const nonceBytes = 16

func random() string {
	var b [nonceBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// isNonce reports whether a text is one as random makes them.
func isNonce(text string) bool {
	if len(text) != nonceLength {
		return false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
