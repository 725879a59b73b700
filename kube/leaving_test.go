package kube_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// A Node is about to go where the autoscaler has tainted it, or its deletion waits; of
// others' Nodes, and of one that is gone, nothing is told.
func TestFollowLeaving(t *testing.T) {
	s := apitest.New(t)
	const own, tainted, deleted = `{apiVersion: v1, kind: Node, metadata: {name: a}}`,
		`{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {taints: [{key: x, effect: NoSchedule}, {key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}}`,
		`{apiVersion: v1, kind: Node, metadata: {name: a, deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: [example.com/x]}}`
	s.Put(t, own)
	s.Put(t, `{apiVersion: v1, kind: Node, metadata: {name: b}, spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}}`)
	var mu sync.Mutex
	var told []bool
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Client(t).FollowLeaving(ctx, "a", func(leaving bool) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, leaving)
		})
	}()
	comes := func(when string, want ...bool) {
		t.Helper()
		var got []bool
		for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			got = slices.Clone(told)
			mu.Unlock()
			if slices.Equal(got, want) {
				return
			}
		}
		t.Fatalf("%s: told %v, want %v", when, got, want)
	}
	comes("at first", false)
	s.Put(t, tainted)
	comes("tainted", false, true)
	s.Put(t, own)
	comes("it stays after all", false, true, false)
	s.Put(t, deleted)
	comes("deleted, and its finalizer waits", false, true, false, true)
	s.Delete("/api/v1/nodes/a")
	s.Put(t, own)
	comes("registered again", false, true, false, true, false)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
