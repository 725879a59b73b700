package check

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/near"
)

// Plugin is a probe as its flag says, in SuperEdge's syntax:
// timeout=5,retrytime=3,weight=1,port=10250. It is a pflag.Value.
type Plugin struct {
	On       bool
	Timeout  time.Duration // of an attempt; in the flag seconds, or 500ms
	Attempts int           // retrytime: how often it is tried, the first time counted
	Weight   float64
	Port     uint16
}

// NewPlugin is one that is off, with the values of what its flag does not name.
func NewPlugin(port uint16) Plugin {
	return Plugin{Timeout: time.Second, Attempts: 3, Weight: 1, Port: port}
}

// The most that a flag may ask for.
const (
	mostTimeout  = time.Minute
	mostAttempts = 10
	mostWeight   = 100
)

// Set takes the flag's value. What it does not name stays as it is. Where it is wrong
// nothing changes, and the error names all that is.
func (p *Plugin) Set(text string) error {
	next := *p
	next.On = true
	seen := map[string]bool{}
	var errs []error
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue // as SuperEdge reads it
		}
		key, value, ok := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		read := keys[key]
		switch {
		case read == nil:
			errs = append(errs, unknownKey(key))
		case !ok:
			errs = append(errs, fmt.Errorf("%s has no value: write %s=%s", key, key, next.value(key)))
		case seen[key]:
			errs = append(errs, fmt.Errorf("%s is said twice", key))
		default:
			errs = append(errs, read(&next, value))
		}
		seen[key] = true
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	*p = next
	return nil
}

// String is the value that Set would take; of a probe that is off it is empty.
func (p *Plugin) String() string {
	if !p.On {
		return ""
	}
	parts := make([]string, 0, len(keyNames))
	for _, key := range keyNames {
		parts = append(parts, key+"="+p.value(key))
	}
	return strings.Join(parts, ",")
}

// Type is what help calls it.
func (p *Plugin) Type() string { return "timeout=,retrytime=,weight=,port=" }

// keyNames are all keys, in the order of SuperEdge's manifests.
var keyNames = []string{"timeout", "retrytime", "weight", "port"}

var keys = map[string]func(p *Plugin, value string) error{
	"timeout": func(p *Plugin, value string) (err error) {
		p.Timeout, err = seconds(value)
		return err
	},
	"retrytime": func(p *Plugin, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > mostAttempts {
			return fmt.Errorf("retrytime=%s: must be a whole number from 1 to %d, the attempts", value, mostAttempts)
		}
		p.Attempts = n
		return nil
	},
	"weight": func(p *Plugin, value string) error {
		w, err := strconv.ParseFloat(value, 64)
		if err != nil || !(w > 0 && w <= mostWeight) {
			return fmt.Errorf("weight=%s: must be a number more than 0, and %d at most", value, mostWeight)
		}
		p.Weight = w
		return nil
	},
	"port": func(p *Plugin, value string) error {
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("port=%s: must be from 1 to 65535", value)
		}
		p.Port = uint16(n)
		return nil
	},
}

func seconds(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if n, whole := strconv.Atoi(value); whole == nil && n >= 0 && n <= int(mostTimeout/time.Second) {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d <= 0 || d > mostTimeout {
		return 0, fmt.Errorf("timeout=%s: must be seconds, or as 500ms, more than 0 and %s at most", value, mostTimeout)
	}
	return d, nil
}

func unknownKey(key string) error {
	meant := ""
	if like := near.Word(key, keyNames); like != "" {
		meant = fmt.Sprintf("; did you mean %s?", like)
	}
	return fmt.Errorf("there is no %q: what there is are %s%s", key, strings.Join(keyNames, ", "), meant)
}

func (p *Plugin) value(key string) string {
	switch key {
	case "timeout":
		if p.Timeout%time.Second == 0 {
			return strconv.Itoa(int(p.Timeout / time.Second))
		}
		return p.Timeout.String()
	case "retrytime":
		return strconv.Itoa(p.Attempts)
	case "weight":
		return strconv.FormatFloat(p.Weight, 'g', -1, 64)
	}
	return strconv.Itoa(int(p.Port))
}

// validate reports what a flag could not have said.
func (p *Plugin) validate() error {
	if !p.On || p.Timeout > 0 && p.Timeout <= mostTimeout && p.Attempts >= 1 && p.Attempts <= mostAttempts &&
		p.Weight > 0 && p.Weight <= mostWeight && p.Port > 0 {
		return nil
	}
	return fmt.Errorf("%s: something of it is out of its range", p.String())
}
