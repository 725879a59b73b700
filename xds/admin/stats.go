package admin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Stats are what Envoy counts, without its endpoints: the answer is as long as
// what was used, and not as what it holds.
type Stats struct {
	Overload Overload
	// Uses are the clusters that ever had a connection or an ejected endpoint,
	// by name, without those of its bootstrap.
	Uses []Use
	// Counted: it counts by cluster. One whose bootstrap is of before does not,
	// and has no Uses.
	Counted bool
}

// The statistics of a cluster that are read. The bootstrap lets through those.
const (
	statTotal   = "upstream_cx_total"
	statFailed  = "upstream_cx_connect_fail"
	statActive  = "upstream_cx_active"
	statEjected = "outlier_detection_ejections_active"
)

// agentCluster is the agent's own in the bootstrap: an Envoy that counts by
// cluster counts the connection to it.
const agentCluster = "xds"

// maxStats bounds the answer: some 700 bytes of a cluster that was used.
const maxStats = 64 << 20

// statsFilter is of what is read, by Envoy's own names.
const statsFilter = `^(cluster\..*\.(upstream_cx_(total|connect_fail|active)|outlier_detection\.ejections_active)` +
	`|overload\.envoy\.(resource_monitors\.(global_downstream_max_connections\.failed_updates|fixed_heap\.pressure)|overload_actions\.stop_accepting_connections\.active)` +
	`|server\.total_connections)$`

// Stats asks for them. Prometheus' form is the one for which Envoy does not
// sort the names of all clusters first, on the thread that takes its updates.
func (r *Reader) Stats(ctx context.Context) (Stats, error) {
	page, err := r.get(ctx, "stats/prometheus?"+url.Values{"usedonly": {""}, "filter": {statsFilter}}.Encode())
	if err != nil {
		return Stats{}, fmt.Errorf("ask Envoy for its statistics: %w", err)
	}
	defer page.Close()
	body := &io.LimitedReader{R: page, N: min(r.most, maxStats)}
	s, err := decodeStats(body)
	if body.N <= 0 {
		err = ErrTooLarge
	}
	if err != nil {
		return Stats{}, fmt.Errorf("ask Envoy for its statistics: %w", err)
	}
	return s, nil
}

// decodeStats reads Prometheus' text format, as far as Envoy writes it for
// counters and gauges. What is 0 and was never anything else is left out there.
func decodeStats(r io.Reader) (s Stats, err error) {
	uses := map[string]*Use{}
	err = eachLine(r, func(text []byte) error {
		line := string(text)
		if line == "" || line[0] == '#' {
			return nil
		}
		name, labels, value, err := sample(line)
		if err != nil || s.Overload.set(name, value) {
			return err
		}
		cluster, stat, ok := clusterOf(name, labels)
		switch {
		case !ok:
			return nil
		case cluster == agentCluster:
			s.Counted = true
			return nil
		case uses[cluster] == nil:
			uses[cluster] = &Use{Cluster: cluster}
		}
		uses[cluster].set(stat, value)
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		s.Uses = append(s.Uses, *uses[name])
	}
	return s, err
}

// sample is a line of the format: name{labels} value.
func sample(line string) (name, labels string, value uint64, err error) {
	series, number, ok := strings.Cut(line, "} ")
	if ok {
		name, labels, ok = strings.Cut(series, "{")
	}
	if ok {
		value, err = strconv.ParseUint(number, 10, 64)
	}
	if !ok || err != nil {
		return "", "", 0, fmt.Errorf("%.200q is no statistic", line)
	}
	return name, labels, value, nil
}

// clusterOf finds the cluster of a statistic, as the catalog names it, and
// which one it is. Envoy takes what is before the first dot of a cluster's name
// for all of the name, and writes _ for : in it, and for what is no letter or
// digit in the rest:
//
//	10.96.0.10:80  envoy_cluster_96_0_10_80_upstream_cx_total{envoy_cluster_name="10"}
//	[fd00::1]:80   envoy_cluster_upstream_cx_total{envoy_cluster_name="[fd00__1]_80"}
func clusterOf(name, labels string) (cluster, stat string, ok bool) {
	label, found := strings.CutPrefix(labels, `envoy_cluster_name="`)
	label, closed := strings.CutSuffix(label, `"`)
	name, prefixed := strings.CutPrefix(name, "envoy_cluster_")
	if !found || !closed || !prefixed {
		return "", "", false
	}
	for _, stat := range []string{statTotal, statFailed, statActive, statEjected} {
		rest, ok := strings.CutSuffix(name, stat)
		if !ok {
			continue
		}
		if rest == "" {
			return strings.ReplaceAll(label, "_", ":"), stat, true
		}
		part := strings.Split(strings.TrimSuffix(rest, "_"), "_")
		if len(part) < 4 {
			return "", "", false // none of ours
		}
		cluster = strings.Join(append([]string{label}, part[:3]...), ".") + ":" + strings.Join(part[3:], "/")
		return cluster, stat, true
	}
	return "", "", false
}
