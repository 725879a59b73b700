package health

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// SuperEdge follows SuperEdge's ConfigMaps: who votes with whom, and the key of the unit.
type SuperEdge struct {
	Client    *kube.Client
	Namespace string
	// UnitKey is the label of units where zones are on, SuperEdge's or another.
	UnitKey string
	// Legacy is the generation of SuperEdge's nodes in the unit, if there are any.
	Legacy peer.Dialect
	// File is where it is kept what was in force last, the key too, for starts without a
	// cloud; empty for nowhere.
	File string
	// Group hears how nodes are grouped, at first and whenever that changes.
	Group func(g Grouping)
	// Keys hears the keys (peer.Peer.SetKeys); nil where they are not to come from there.
	Keys    func(raw ...[]byte) error
	Metrics *SuperEdgeMetrics
	Log     logger

	inForce book
	grouped *Grouping
	gone    map[string]time.Time // since when there is none of who is in force
	goneFor time.Duration        // instead of goneStands, where it is not 0
	refused error                // why the keys in force are not the exchange's
	said    map[string]string    // by ConfigMap and kind: what was told last
}

// SuperEdgeMetrics are what is counted of SuperEdge's ConfigMaps.
type SuperEdgeMetrics struct{ faults *prometheus.GaugeVec }

// NewSuperEdgeMetrics registers them.
func NewSuperEdgeMetrics(r prometheus.Registerer) *SuperEdgeMetrics {
	m := &SuperEdgeMetrics{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gridmesh_health_superedge_config_faults",
		Help: "1 where a ConfigMap of SuperEdge is not in force as it stands in the cluster, by why: content, unread.",
	}, []string{"configmap", "why"})}
	r.MustRegister(m.faults)
	return m
}

// How often it is looked whether the API server refuses to tell.
const faultEvery = 5 * time.Second

// goneStands is for how long there is none of a ConfigMap before that counts: without it all nodes
// are one unit, and what an API server forgot, or is deleted to be made anew, comes again.
const goneStands = time.Minute

// wanted are the ConfigMaps that are followed, sorted.
func (s *SuperEdge) wanted() []string {
	list := []string{names.HealthConfig, names.HealthZoneConfig}
	if s.Keys != nil {
		list = append(list, names.HMACConfig)
	}
	return list
}

// Run follows them until ctx ends. It begins with what was in force last, of File.
func (s *SuperEdge) Run(ctx context.Context) error {
	s.begin()
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer func() { cancel(); all.Wait() }()
	wake := make(chan struct{}, 1)
	mirrors := map[string]*typed.Mirror[page]{}
	for _, name := range s.wanted() {
		m := typed.ConfigMaps(s.Client, s.Namespace, typed.Selection{Fields: "metadata.name=" + name}, pageOf)
		mirrors[name] = m
		all.Go(func() { _ = m.Run(ctx) })
		all.Go(func() { forward(ctx, m.Wake(), wake) })
	}
	look := time.NewTicker(faultEvery)
	defer look.Stop()
	for {
		select {
		case <-wake:
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
		for _, name := range s.wanted() {
			m := mirrors[name]
			s.unread(name, m.Fault())
			select {
			case <-m.Ready():
				p, there := m.Get(s.Namespace + "/" + name)
				s.hear(time.Now(), name, p, there)
			default:
			}
		}
	}
}

// forward makes one channel of several.
func forward(ctx context.Context, from <-chan struct{}, to chan<- struct{}) {
	for {
		select {
		case <-from:
		case <-ctx.Done():
			return
		}
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// begin has what was kept last in force.
func (s *SuperEdge) begin() {
	s.said, s.inForce, s.gone = map[string]string{}, book{}, map[string]time.Time{}
	for _, name := range s.wanted() {
		s.Metrics.faults.WithLabelValues(name, "content").Set(0)
		s.Metrics.faults.WithLabelValues(name, "unread").Set(0)
	}
	kept, err := readBook(s.File, s.Namespace)
	if err != nil {
		s.Log.Warn("what was kept of SuperEdge's ConfigMaps is not used", obs.KeyErr, err)
	}
	for _, name := range s.wanted() {
		if p, ok := kept[name]; ok {
			s.inForce[name] = p
		}
	}
	s.apply(names.HMACConfig)
	s.apply(names.HealthConfig)
}

func (s *SuperEdge) stands() time.Duration { return cmp.Or(s.goneFor, goneStands) }

// hear takes what the API server says of a ConfigMap.
func (s *SuperEdge) hear(now time.Time, name string, p page, there bool) {
	if there || !s.inForce[name].There {
		delete(s.gone, name)
	} else if since, known := s.gone[name]; !known {
		s.gone[name] = now
		s.Log.Warn("a ConfigMap of SuperEdge is gone; what was in force stays until that has stood", obs.KeyName, s.Namespace+"/"+name, obs.KeyWait, s.stands())
		return
	} else if now.Sub(since) < s.stands() {
		return
	}
	if !there {
		p = page{Known: true}
	}
	s.see(name, p)
}

// see takes a ConfigMap as it is now. What is wrong with it leaves in force what was.
func (s *SuperEdge) see(name string, p page) {
	err, same := p.check(name), reflect.DeepEqual(s.inForce[name], p)
	if err == nil && same && name == names.HMACConfig {
		err = s.refused
	}
	s.fault(name, "content", err)
	if err != nil || same {
		return
	}
	next := maps.Clone(s.inForce)
	next[name] = p
	s.inForce = next
	s.apply(name)
	if err := writeBook(s.File, s.Namespace, next); err != nil {
		s.Log.Warn("what is in force of SuperEdge's ConfigMaps was not kept", obs.KeyErr, err)
	}
}

// apply tells of what is in force of a ConfigMap.
func (s *SuperEdge) apply(name string) {
	if name == names.HMACConfig {
		if keys := s.inForce.keys(); s.Keys != nil && len(keys) > 0 {
			if s.refused = s.Keys(keys...); s.refused == nil {
				s.Log.Info("the key of node health is the one of SuperEdge's ConfigMap", obs.KeyName, s.Namespace+"/"+name, obs.KeyWhich, len(keys))
			}
			s.fault(name, "content", s.refused)
		}
	} else if g, known := s.inForce.grouping(s.UnitKey, s.Legacy); known && (s.grouped == nil || !s.grouped.equal(g)) {
		s.grouped = &g
		s.Group(g)
	}
	notes := s.inForce.notes(s.Legacy)
	for _, of := range s.wanted() {
		if text := notes[of]; s.news(of, "note", text) && text != "" {
			s.Log.Warn("a ConfigMap of SuperEdge may not say what is meant", obs.KeyName, s.Namespace+"/"+of, obs.KeyProblem, text)
		}
	}
}

// fault counts what is wrong with a ConfigMap, and tells of it once.
func (s *SuperEdge) fault(name, why string, err error) {
	is, text := 0.0, ""
	if err != nil {
		is, text = 1, err.Error()
	}
	s.Metrics.faults.WithLabelValues(name, why).Set(is)
	switch {
	case !s.news(name, why, text):
	case err == nil:
		s.Log.Info("a ConfigMap of SuperEdge is in force as it is", obs.KeyName, s.Namespace+"/"+name)
	case s.inForce[name].Known:
		s.Log.Error("a ConfigMap of SuperEdge is not taken, and what was in force stays", obs.KeyName, s.Namespace+"/"+name, obs.KeyErr, err)
	default:
		s.Log.Error("a ConfigMap of SuperEdge is not taken, and none was before", obs.KeyName, s.Namespace+"/"+name, obs.KeyErr, err)
	}
}

// news reports whether something is told that was not the last time.
func (s *SuperEdge) news(name, kind, text string) bool {
	key := name + " " + kind
	was := s.said[key]
	s.said[key] = text
	return was != text
}

// unread tells that the API server refuses to tell of a ConfigMap. That it is not reached
// is told of the uplink.
func (s *SuperEdge) unread(name string, err error) {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		s.fault(name, "unread", fmt.Errorf("%w: gridmesh-health needs the right to list and watch it (deploy/health/superedge)", err))
	} else if err == nil {
		s.fault(name, "unread", nil)
	}
}
