package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// The controller's metrics are scraped with a token of the cluster whose owner is
// bound to the ClusterRole of deploy/, and by nobody else.
func TestMetricsNeedAToken(t *testing.T) {
	const address = "127.0.0.1:10359"
	controller(t, "--secure-metrics-bind-address", address)
	dial := func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		return conn, errors.Join(c.Lab.Cloud.Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		}))
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its certificate is its own
	}}
	get := func(token string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", http.NoBody)
		must(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.Status + " " + string(body), err
	}
	expect := func(token, want string) {
		t.Helper()
		wait.Eventually(t, func() error {
			if got, err := get(token); err != nil || !strings.HasPrefix(got, want) {
				return fmt.Errorf("%.100q, want %s: %w", got, want, errors.Join(err))
			}
			return nil
		})
	}
	applied(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: scraper}}`, "serviceaccount/scraper")
	request, err := c.Kube.CoreV1().ServiceAccounts("default").CreateToken(patient(t), "scraper", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	token := request.Status.Token
	expect("", "401")
	expect("guess", "401")
	expect(token, "403")
	applied(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: scraper}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gridmesh-metrics}, subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]}`, "clusterrolebinding/scraper")
	expect(token, "200 OK # HELP")
	expect("guess", "401")
}
