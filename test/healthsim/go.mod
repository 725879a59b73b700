module github.com/gridmesh/gridmesh/test/healthsim

go 1.26.0

require (
	github.com/gridmesh/gridmesh v0.0.0
	github.com/hashicorp/memberlist v0.5.3
	github.com/prometheus/client_golang v1.25.0
	github.com/spf13/pflag v1.0.10
	go.uber.org/goleak v1.3.0
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)

replace github.com/gridmesh/gridmesh => ../..
