package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gridmesh/gridmesh/kube"
)

// An agent writes at most 10 Events an hour, and the same one, which outlives
// a restart under its name, twice: what comes and goes leaves room for the others.
const (
	nodePerHour = 10
	nodeRepeat  = 30 * time.Minute
	nodeQueue   = 16
)

// Node writes warnings about an agent's own Node.
type Node struct {
	*Writer
	node string
}

// ForNode writes Events about a node through c on Run.
func ForNode(c *kube.Client, node string, log *slog.Logger) *Node {
	limit := &nodeLimit{}
	return &Node{node: node, Writer: newWriter(c, log, config{
		source:     corev1.EventSource{Component: "gridmesh-agent", Host: node},
		controller: "gridmesh.io/agent",
		name:       nameByContent,
		correlate: func(ev *corev1.Event) *record.EventCorrelateResult {
			return &record.EventCorrelateResult{Event: ev, Skip: !limit.accepts(ev)}
		},
		wrote:  limit.wrote,
		repeat: nodeRepeat, tries: 1, queue: nodeQueue,
	})}
}

// nodeLimit is what bounds an agent's Events: those that were written within the hour. What is
// lost, as while the uplink is away, is none of them.
type nodeLimit struct {
	mu   sync.Mutex
	said []said
}

type said struct {
	name string
	at   time.Time
}

// accepts reports whether an Event is to be written. One that was a short while ago
// takes none of the others' room.
func (l *nodeLimit) accepts(ev *corev1.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := ev.LastTimestamp.Time
	// What is yet to come was said before the clock was set back.
	l.said = slices.DeleteFunc(l.said, func(s said) bool { return now.Sub(s.at) >= time.Hour || s.at.After(now.Add(time.Second)) })
	again := slices.ContainsFunc(l.said, func(s said) bool { return s.name == ev.Name && now.Sub(s.at) < nodeRepeat })
	return !again && len(l.said) < nodePerHour
}

// wrote notes an Event as it is in the cluster.
func (l *nodeLimit) wrote(ev *corev1.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, said{ev.Name, ev.LastTimestamp.Time})
}

func nameByContent(ev *corev1.Event) string {
	sum := sha256.Sum256([]byte(ev.Reason + "\x00" + ev.Message))
	return ev.InvolvedObject.Name + ".gridmesh-" + hex.EncodeToString(sum[:8])
}

func (n *Node) warning(reason, message string) *corev1.Event {
	// The kubelet's convention: a Node's Events carry its name as UID.
	about := corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.node, UID: types.UID(n.node)}
	return n.event(about, corev1.EventTypeWarning, reason, message)
}

// Warn queues a warning. It never blocks: what does not fit is dropped.
func (n *Node) Warn(reason, message string) { n.put(n.warning(reason, message)) }

// WarnNow writes a warning before it returns, for who is about to end. An API
// server that is away costs a few seconds and the Event.
func (n *Node) WarnNow(ctx context.Context, reason, message string) {
	n.write(ctx, n.warning(reason, message))
}
