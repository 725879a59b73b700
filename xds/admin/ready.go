package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// maxHeader is more than Envoy's answer has.
const maxHeader = 16 << 10

// Ready asks the listener of loopback on which an Envoy says that it serves
// (xds.Bootstrap.HealthPort). It waits until ctx ends at most; one that is
// absent, hangs or has not begun is an error, and so is one that sends elsewhere.
// Nothing stays open. Whose the listener is the caller has to know.
func Ready(ctx context.Context, port uint16) error {
	at := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) + "/ready"
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fmt.Errorf("ask Envoy whether it serves: %w", err)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("ask Envoy whether it serves: %w", err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ask Envoy whether it serves: %s", answer.Status)
	}
	return nil
}
