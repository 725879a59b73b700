package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Limits of one answer. Envoy says about 1 KiB of an endpoint.
const (
	timeout  = 10 * time.Second
	maxBytes = 256 << 20
)

// ErrTooLarge is an answer that is longer than any Envoy of ours gives.
var ErrTooLarge = errors.New("the answer is too large")

// Cluster is a cluster as Envoy holds it.
type Cluster struct {
	Name      string     `json:"name"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is one of its endpoints. The counters are those since Envoy learned
// of the endpoint.
type Endpoint struct {
	Address netip.AddrPort `json:"address"`
	Tier    int            `json:"tier"` // from 0
	// Ejected: a connection to it failed, and nobody is sent there for some
	// seconds, unless everything is ejected.
	Ejected bool `json:"ejected,omitempty"`
	// Unhealthy: the agent said so.
	Unhealthy   bool   `json:"unhealthy,omitempty"`
	Connections uint64 `json:"connections"` // that were tried
	Failed      uint64 `json:"failed"`      // of them
	Active      uint64 `json:"active"`      // open now
}

// Reader asks an Envoy. It is for many goroutines.
type Reader struct {
	client http.Client
	most   int64
}

// New returns a reader of the admin socket at a path. Nothing is opened yet,
// and nothing stays open between two questions.
func New(socket string) *Reader {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Reader{
		client: http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		most:   maxBytes,
	}
}

// Clusters returns the clusters that Envoy holds, in its order, without those
// of its bootstrap. It takes no update meanwhile: half a second for 100,000
// endpoints. What Stats has is better had from there.
func (r *Reader) Clusters(ctx context.Context) ([]Cluster, error) {
	list, err := r.clusters(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask Envoy for its clusters: %w", err)
	}
	return list, nil
}

func (r *Reader) clusters(ctx context.Context) ([]Cluster, error) {
	page, err := r.get(ctx, "clusters")
	if err != nil {
		return nil, err
	}
	defer page.Close()
	body := &io.LimitedReader{R: page, N: r.most}
	list, err := decode(body)
	if body.N <= 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, r.most)
	}
	return list, err
}

// get asks for a page of the admin server, for the caller to close.
func (r *Reader) get(ctx context.Context, page string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://envoy/"+page, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		err = asked.Err // the address is long, and says what is the same every time
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	return resp.Body, nil
}

// decode reads Envoy's text, a line at a time: it is many times larger than what
// is kept of it. As JSON it costs Envoy four times as much, on the thread that
// takes its updates.
func decode(r io.Reader) (list []Cluster, err error) {
	d := decoder{}
	if err := eachLine(r, d.line); err != nil {
		return nil, err
	}
	if !d.any {
		return nil, io.ErrUnexpectedEOF // it has the agent's own, at least
	}
	return d.list, nil
}

// maxLine is more than any line has.
const maxLine = 64 << 10

// eachLine takes whole lines, and no part of one at which an Envoy ended.
func eachLine(r io.Reader, take func(line []byte) error) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		if err := take(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

// decoder takes lines of the forms
//
//	CLUSTER::added_via_api::true
//	CLUSTER::ADDRESS::cx_total::7
//
// of which those of a cluster are together, the former first. Both names may
// have :: in them, values that are read never have.
type decoder struct {
	list  []Cluster
	any   bool
	ours  []byte // how lines of endpoints of the last of list begin; nil where the cluster is none of ours
	text  []byte // of the address of its last endpoint
	known bool   // that is an address
}

var separator = []byte("::")

func (d *decoder) line(line []byte) error {
	i := bytes.LastIndex(line, separator)
	if i < 0 {
		return fmt.Errorf("%.200q says nothing of a cluster", line)
	}
	rest, value := line[:i], line[i+len(separator):]
	if i = bytes.LastIndex(rest, separator); i < 0 {
		return fmt.Errorf("%.200q says nothing of a cluster", line)
	}
	of, stat := rest[:i], rest[i+len(separator):]
	if string(stat) == "added_via_api" {
		d.any, d.ours, d.text, d.known = true, nil, d.text[:0], false
		if string(value) == "true" {
			d.list = append(d.list, Cluster{Name: string(of)})
			d.ours = append(slices.Clone(of), separator...)
		}
		return nil
	}
	address, ok := bytes.CutPrefix(of, d.ours)
	if d.ours == nil || !ok || !read(stat) {
		return nil
	}
	c := &d.list[len(d.list)-1]
	if !bytes.Equal(address, d.text) {
		d.text = append(d.text[:0], address...)
		to, err := netip.ParseAddrPort(string(address))
		if d.known = err == nil; d.known {
			c.Endpoints = append(c.Endpoints, Endpoint{Address: to})
		}
	}
	if d.known {
		c.Endpoints[len(c.Endpoints)-1].set(string(stat), value)
	}
	return nil
}

// read reports whether anything is kept of a line, before it costs anything.
func read(stat []byte) bool {
	switch string(stat) {
	case "cx_total", "cx_connect_fail", "cx_active", "health_flags", "priority":
		return true
	}
	return false
}

func (e *Endpoint) set(stat string, value []byte) {
	n, _ := strconv.ParseUint(string(value), 10, 64)
	switch stat {
	case "cx_total":
		e.Connections = n
	case "cx_connect_fail":
		e.Failed = n
	case "cx_active":
		e.Active = n
	case "priority":
		e.Tier = int(min(n, math.MaxInt32))
	case "health_flags":
		e.Ejected = bytes.Contains(value, []byte("/failed_outlier_check"))
		e.Unhealthy = bytes.Contains(value, []byte("/failed_eds_health"))
	}
}
