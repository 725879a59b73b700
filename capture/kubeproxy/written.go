package kubeproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// Asked is where a kube-proxy is asked what it has written: hosts and ports of its metrics
// and of its health, and for how long each is waited for.
type Asked struct {
	Metrics, Health []string
	Patience        time.Duration
}

// Here is where it is asked on a node, whichever family it listens on; its metrics take some
// ms on a quiet one.
func Here() Asked {
	local := func(port uint16) (list []string) {
		for _, ip := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
			list = append(list, netip.AddrPortFrom(ip, port).String())
		}
		return list
	}
	return Asked{local(MetricsPort), local(HealthPort), 5 * time.Second}
}

// Word is what a kube-proxy says of the rules that it has written since it started.
type Word struct {
	Wrote []string // families (ip, ip6)
	// Sure is where its metrics say so. Its health alone has a family as soon as it is about
	// to write for it, and says so for ever where it never hears of Services.
	Sure bool
}

// Errors of who answers, and is no kube-proxy that could be understood.
var (
	errTooLong  = errors.New("the answer is too long")
	errNotProxy = errors.New("what answers is no kube-proxy")
	errNobody   = errors.New("nobody listens")
	errStranger = errors.New("who is not root is not asked")
	errAnother  = errors.New("another listens there than when it was asked")
)

// ErrAgent says that an agent of gridmesh has the ports of kube-proxy.
var ErrAgent = errors.New("gridmesh-agent answers, which has kube-proxy's port")

// Bounds of an answer: metrics of kube-proxy are some 100 KB, its health some 100 bytes.
const maxMetrics, maxHealth, maxHeader = 8 << 20, 64 << 10, 64 << 10

// Word asks it, and is an error where no kube-proxy answers: it may be told to answer
// elsewhere, or not at all. One that has not reached the API server since it started answers nothing, either.
func (a Asked) Word(ctx context.Context) (Word, error) {
	wrote, unmeasured := a.ask(ctx, a.Metrics, "/metrics", maxMetrics, byMetrics, http.StatusOK)
	if unmeasured == nil {
		return Word{Wrote: wrote, Sure: true}, nil
	}
	// Metrics that are off are taken for its health; not those that somebody keeps it from.
	if errors.Is(unmeasured, errStranger) {
		return Word{}, fmt.Errorf("its metrics: %w", unmeasured)
	}
	wrote, err := a.ask(ctx, a.Health, "/healthz", maxHealth, byHealth, http.StatusOK, http.StatusServiceUnavailable)
	if err == nil {
		return Word{Wrote: wrote}, nil
	}
	return Word{}, fmt.Errorf("its metrics: %w; its health: %w", unmeasured, err)
}

// ask asks one address after the other, and takes the first answer that is understood.
func (a Asked) ask(ctx context.Context, addresses []string, path string, most int64, read func([]byte) ([]string, error), codes ...int) ([]string, error) {
	var errs []error
	for _, address := range addresses {
		var wrote []string
		text, err := a.askRoot(ctx, address, path, most, codes...)
		if err == nil {
			wrote, err = read(text)
		}
		if err == nil {
			return wrote, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	return nil, joined(errs)
}

// joined are errors in one line.
func joined(errs []error) error {
	var all error
	for _, err := range errs {
		if all == nil {
			all = err
			continue
		}
		all = fmt.Errorf("%w, %w", all, err)
	}
	return all
}

// askRoot asks where root listens, and nobody else: anybody on the network of the node may
// listen, and a kube-proxy that is root's is asked. It is root who answered where the same sockets listen before and
// after it, for as long as they do nobody else can have their address.
func (a Asked) askRoot(ctx context.Context, address, path string, most int64, codes ...int) ([]byte, error) {
	before, err := rootAt(address)
	if err != nil {
		return nil, err
	}
	text, err := a.get(ctx, address, path, most, codes...)
	if err != nil {
		return nil, err
	}
	after, err := rootAt(address)
	if err == nil && !slices.Equal(before, after) {
		err = errAnother
	}
	return text, err
}

// rootAt is who listens at an address, where that is root.
func rootAt(address string) ([]sockdiag.ID, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	all, err := listeners(at.Port())
	if err != nil {
		return nil, err
	}
	return rootAmong(all, at)
}

func rootAmong(all []sockdiag.Socket, at netip.AddrPort) (list []sockdiag.ID, err error) {
	for _, s := range all {
		switch {
		case !s.Hears(at):
		case s.UID != 0:
			return nil, fmt.Errorf("user %d listens: %w", s.UID, errStranger)
		default:
			list = append(list, s.ID)
		}
	}
	if len(list) == 0 {
		return nil, errNobody
	}
	return list, nil
}

// get asks once, over a connection of its own, nobody but who listens there.
func (a Asked) get(ctx context.Context, address, path string, most int64, codes ...int) ([]byte, error) {
	client := &http.Client{
		Timeout:       a.Patience,
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, constant(err)
	}
	defer resp.Body.Close()
	if !slices.Contains(codes, resp.StatusCode) {
		return nil, fmt.Errorf("%w: %s", errNotProxy, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(text)) > most {
		err = errTooLong
	}
	return text, constant(err)
}

// constant is an error without what was asked for, and without the addresses of a connection,
// of which the own port is another each time: who waits says what is new.
func constant(err error) error {
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		err = asked.Err
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	return err
}

// lastWritten is when rules were last written, in seconds. Before it had the label ip_family
// one stood for both, and was 0 at first.
const lastWritten = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"

// byMetrics reads for which families rules were written. An agent of gridmesh has kube-proxy's
// metrics, too, besides its own.
func byMetrics(text []byte) (wrote []string, err error) {
	theirs := false
	for line := range bytes.Lines(text) {
		line := string(bytes.TrimSpace(line))
		if strings.HasPrefix(line, "gridmesh_") {
			return nil, ErrAgent
		}
		theirs = theirs || strings.HasPrefix(line, "kubeproxy_")
		rest, is := strings.CutPrefix(line, lastWritten)
		if !is {
			continue
		}
		labels, value, _ := strings.Cut(rest, " ")
		if at, err := strconv.ParseFloat(value, 64); err != nil || !(at > 0) {
			continue
		}
		for _, f := range families {
			if labels == "" || strings.Contains(labels, fmt.Sprintf("ip_family=%q", f.label)) {
				wrote = append(wrote, f.name)
			}
		}
	}
	if !theirs {
		return nil, errNotProxy
	}
	return wrote, nil
}

// byHealth reads which families a kube-proxy has got to. One that does not say how healthy
// it is, as before Kubernetes 1.33, does not say this either, and may have got to all.
func byHealth(text []byte) (wrote []string, err error) {
	var h struct {
		LastUpdated, CurrentTime, Source string
		Healthy                          *bool
		Status                           map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &h); err != nil || h.LastUpdated == "" || h.CurrentTime == "" {
		return nil, errNotProxy
	}
	if h.Source != "" {
		return nil, ErrAgent
	}
	for _, f := range families {
		if _, has := h.Status[f.label]; has || h.Healthy == nil {
			wrote = append(wrote, f.name)
		}
	}
	return wrote, nil
}
