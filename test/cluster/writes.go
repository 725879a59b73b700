package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var mutating = regexp.MustCompile(`^apiserver_request_total\{.*,resource="(\w+)".*,subresource="(\w*)".*,verb="(?:APPLY|PATCH|PUT|POST|DELETE|DELETECOLLECTION)".*\} (\S+)$`)

// Writes counts the mutating requests that the API server has answered, of
// those resources that are chosen.
func (c *Cluster) Writes(ctx context.Context, choose func(resource, subresource string) bool) (n float64, err error) {
	text, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		m := mutating.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !choose(m[1], m[2]) {
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return 0, fmt.Errorf("the API server's metrics say %q: %w", line, err)
		}
		n += v
	}
	return n, nil
}
