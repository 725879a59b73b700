package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Limits of one answer. Envoy says about 2 KiB of an endpoint.
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
// of its bootstrap.
func (r *Reader) Clusters(ctx context.Context) ([]Cluster, error) {
	list, err := r.clusters(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask Envoy for its clusters: %w", err)
	}
	return list, nil
}

func (r *Reader) clusters(ctx context.Context) ([]Cluster, error) {
	page, err := r.get(ctx, "clusters?format=json")
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
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	return resp.Body, nil
}

// status is what is read of an envoy.admin.v3.ClusterStatus.
type status struct {
	Name  string `json:"name"`
	API   bool   `json:"added_via_api"`
	Hosts []struct {
		Address struct {
			Socket struct {
				IP   string `json:"address"`
				Port uint16 `json:"port_value"`
			} `json:"socket_address"`
		} `json:"address"`
		Stats []struct {
			Name  string      `json:"name"`
			Value json.Number `json:"value"` // text, as of every 64 bit number
		} `json:"stats"`
		Health struct {
			Ejected bool   `json:"failed_outlier_check"`
			EDS     string `json:"eds_health_status"`
		} `json:"health_status"`
		Priority int `json:"priority"`
	} `json:"host_statuses"`
}

// decode reads an envoy.admin.v3.Clusters, one cluster at a time: the text is
// many times larger than what is kept of it.
func decode(r io.Reader) (list []Cluster, err error) {
	d := json.NewDecoder(bufio.NewReader(r))
	if err := expect(d, json.Delim('{')); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key != "cluster_statuses" {
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return nil, err
			}
			continue
		}
		if err := expect(d, json.Delim('[')); err != nil {
			return nil, err
		}
		for d.More() {
			var s status
			if err := d.Decode(&s); err != nil {
				return nil, err
			}
			if s.API {
				list = append(list, s.cluster())
			}
		}
		if err := expect(d, json.Delim(']')); err != nil {
			return nil, err
		}
	}
	return list, expect(d, json.Delim('}'))
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err == nil && got != want:
		return fmt.Errorf("%v where %v was expected", got, want)
	}
	return err
}

func (s *status) cluster() Cluster {
	c := Cluster{Name: s.Name}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		ip, err := netip.ParseAddr(h.Address.Socket.IP)
		if err != nil {
			continue // not one of ours
		}
		e := Endpoint{
			Address: netip.AddrPortFrom(ip, h.Address.Socket.Port), Tier: h.Priority,
			Ejected: h.Health.Ejected, Unhealthy: h.Health.EDS == "UNHEALTHY",
		}
		for _, stat := range h.Stats {
			n, _ := strconv.ParseUint(stat.Value.String(), 10, 64) // "" is 0
			switch stat.Name {
			case "cx_total":
				e.Connections = n
			case "cx_connect_fail":
				e.Failed = n
			case "cx_active":
				e.Active = n
			}
		}
		c.Endpoints = append(c.Endpoints, e)
	}
	return c
}
