package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Tracking is what the kernel's table of connections has at least, in kube-proxy's words.
// 0 leaves a value as it is, and so does one that is higher already: somebody wanted that.
type Tracking struct {
	MaxPerCore, Min              int // connections: for each core, but Min in all
	TCPEstablished, TCPCloseWait time.Duration
	UDP, UDPStream               time.Duration
	Liberal                      bool // packets out of the window do not end a connection
}

// DefaultTracking is kube-proxy's. A pod that is slow to close may keep its side open for
// an hour: the kernel alone forgets the connection after a minute, and takes what comes
// then for another one's (kubernetes#32551).
func DefaultTracking() Tracking {
	return Tracking{MaxPerCore: 32 << 10, Min: 128 << 10, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour}
}

// mostTracked bounds what cores come to, as in kube-proxy: a connection costs some 300 bytes.
const mostTracked = 1 << 20

// perBucket is how many connections a bucket of the table is for.
const perBucket = 4

// Validate names every flag that is wrong.
func (t Tracking) Validate() error {
	var errs []error
	for _, n := range []struct {
		flag  string
		value int
	}{{"conntrack-max-per-core", t.MaxPerCore}, {"conntrack-min", t.Min}} {
		if n.value < 0 || n.value > maxInt32 {
			errs = append(errs, fmt.Errorf("--%s %d: must be 0, which leaves the kernel's bound alone, to %d", n.flag, n.value, maxInt32))
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"conntrack-tcp-timeout-established", t.TCPEstablished},
		{"conntrack-tcp-timeout-close-wait", t.TCPCloseWait},
		{"conntrack-udp-timeout", t.UDP},
		{"conntrack-udp-timeout-stream", t.UDPStream},
	} {
		if d.value != 0 && d.value < time.Second || d.value > longestTimeout {
			errs = append(errs, fmt.Errorf("--%s %s: must be 0, which leaves the kernel's alone, or 1s to %s", d.flag, d.value, longestTimeout))
		}
	}
	return errors.Join(errs...)
}

const (
	maxInt32       = 1<<31 - 1
	longestTimeout = 365 * 24 * time.Hour
)

// floor is a sysctl, and what it is at least.
type floor struct {
	key   string // below net/netfilter
	least int
}

// floors are those of a node of so many cores.
func (t Tracking) floors(cores int) []floor {
	most := 0
	if t.MaxPerCore > 0 {
		most = max(t.Min, min(t.MaxPerCore*cores, mostTracked))
	}
	list := []floor{
		{"nf_conntrack_max", most},
		{"nf_conntrack_buckets", most / perBucket},
		{"nf_conntrack_tcp_timeout_established", seconds(t.TCPEstablished)},
		{"nf_conntrack_tcp_timeout_close_wait", seconds(t.TCPCloseWait)},
		{"nf_conntrack_udp_timeout", seconds(t.UDP)},
		{"nf_conntrack_udp_timeout_stream", seconds(t.UDPStream)},
	}
	if t.Liberal {
		list = append(list, floor{"nf_conntrack_tcp_be_liberal", 1})
	}
	return list
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// raise raises what is lower than a floor, and says what cannot be raised. What is not
// there belongs to a module that is not loaded; what the kernel lets nobody of this
// network write, as the bound in one that is not the machine's, is not this node's.
func raise(procSys string, list []floor) error {
	var errs []error
	for _, f := range list {
		path := filepath.Join(procSys, "net", "netfilter", f.key)
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		now, parse := strconv.Atoi(strings.TrimSpace(string(text)))
		if err = errors.Join(err, parse); err == nil && now >= f.least {
			continue
		}
		if info, stat := os.Stat(path); stat == nil && info.Mode().Perm()&0o200 == 0 {
			continue
		}
		if err == nil {
			err = os.WriteFile(path, []byte(strconv.Itoa(f.least)), 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("net.netfilter.%s=%d: %w", f.key, f.least, err))
		}
	}
	return errors.Join(errs...)
}

// raiseTracking gives the kernel's table of connections what the operator wants, once: who
// lowers a value later means it. Where it cannot be done it is a finding, and tried again.
// Nothing of it is put back: to lower a bound turns away whoever is above it, and kube-proxy,
// which may come next, wants the same.
func (c *Capture) raiseTracking() {
	if c.raised {
		return
	}
	err := raise(c.host.ProcSys, c.host.Tracking.floors(runtime.NumCPU()))
	c.raised = err == nil
	text := ""
	if err != nil {
		text = fmt.Sprintf("the kernel's table of connections stays smaller, or forgets sooner, than wanted (%s): have /proc/sys writable for the agent, set the values in the node's sysctls, or give 0 for the flag --conntrack-… of each", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	c.own.set(TrackingLimits, text)
}

// trackingDir has the kernel's table of connections in numbers.
const trackingDir = "/proc/sys/net/netfilter"

// nearlyFull is the part of the table, in percent, from which on new connections may be dropped: it is filled and emptied
// all the time.
const nearlyFull = 95

// trackingFull tells of a table that has no room. Of a kernel that does not say nothing is known.
func trackingFull(dir string) []Finding {
	read := func(name string) int {
		text, err := os.ReadFile(filepath.Join(dir, name))
		n, odd := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || odd != nil {
			return 0
		}
		return n
	}
	most := read("nf_conntrack_max")
	if most <= 0 || 100*read("nf_conntrack_count") < nearlyFull*most {
		return nil
	}
	return []Finding{{TrackingFull, "the kernel's table of connections is full, or nearly: once it is, packets of new connections are dropped, whoever's they are, the agent's own to Envoy, too; " +
		"see who has them (conntrack -L), and give it room: --conntrack-max-per-core, --conntrack-min, or sysctl -w net.netfilter.nf_conntrack_max=..."}}
}
