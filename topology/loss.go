package topology

import "fmt"

// Loss is what of an object, or of a file of objects, is not in force as it is written.
type Loss uint8

// The zero value is of a Problem for which all is in force as it is written.
const (
	LostNothing Loss = iota
	LostValue        // a value that no API server takes: something else is done instead
	LostField        // a field that does not exist is passed over
	LostAll          // the object, or what of the file cannot be read, is left out
	LostNewer        // it is in force as it was before
	LostRest         // what an API server takes, and is not known or served here, is passed over
)

var losses = []string{"", "value", "field", "all", "newer", "rest"}

// MarshalText is the word of a loss, as in JSON.
func (l Loss) MarshalText() ([]byte, error) {
	if int(l) >= len(losses) { // of a later version
		return fmt.Append(nil, uint8(l)), nil
	}
	return []byte(losses[l]), nil
}

// UnmarshalText takes such a word; one of a later version is a loss all the same.
func (l *Loss) UnmarshalText(text []byte) error {
	*l = LostValue
	for i, word := range losses {
		if string(text) == word {
			*l = Loss(i)
		}
	}
	return nil
}
