package real

import (
	"path/filepath"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
)

// lookupImage stands in for the image by which docs/install.md asks a node's
// DNS: of it nslookup alone is called there.
func lookupImage() realnode.Image {
	return realnode.Image{
		Names: []string{"docker.io/library/busybox:1.36"},
		Files: map[string]string{"/bin/nslookup": filepath.Join(edge.Root(), "bin/lab-worker")},
	}
}

// clusterDNS is the cluster's DNS where deploy/ looks for it, on a node that is
// not the one that changes. Of the world outside it knows one name.
const clusterDNS = `
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-dns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        hosts {
            192.0.2.7 example.org
        }
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-dns, namespace: kube-system}
spec:
  selector: {matchLabels: {app: cluster-dns}}
  template:
    metadata: {labels: {app: cluster-dns}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {kubernetes.io/hostname: a-1}
      dnsPolicy: Default
      containers:
      - name: dns
        image: docker.io/gridmesh/dns:dev
        imagePullPolicy: Never
        args: [-conf, /etc/cluster-dns/Corefile]
        readinessProbe: {tcpSocket: {port: 53}, periodSeconds: 1}
        volumeMounts: [{name: corefile, mountPath: /etc/cluster-dns}]
      volumes: [{name: corefile, configMap: {name: cluster-dns}}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: 10.96.0.10
  selector: {app: cluster-dns}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
`

func startClusterDNS(t *testing.T) {
	t.Helper()
	must(t, c.Apply(clusterDNS))
	t.Cleanup(func() {
		_, err := c.Kubectl("-n", "kube-system", "delete", "deployment/cluster-dns", "service/kube-dns", "configmap/cluster-dns")
		must(t, err)
	})
	_, err := c.WaitPods(patient(t), "kube-system", "app=cluster-dns", 1)
	must(t, err)
}
