package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Whether the API server is there is asked at once, whatever else waits for the client's rate.
func TestAnswersIsBehindNothing(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer s.Close()
	c, err := connect(&rest.Config{Host: s.URL}, "a test", "test", Rate{QPS: 0.01, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, _ = c.Typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{}) // the one that there is room for
	for range 3 {
		if err := c.Answers(ctx); err != nil {
			t.Error(err)
		}
	}
}
