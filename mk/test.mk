##@ Testing

# The second run of the unit tests has the gate on by default. What upstream's
# tests expect and the KEP does not allow is left out there; base.yaml lists
# it, with the reasons.
GATE_ON_DIR := $(PROJECT)/build/gate-on$(BASE_SUFFIX)
GATE_ON_TESTFLAGS := -overlay $(GATE_ON_DIR)/overlay.json -skip $(GATE_ON_SKIP)

# The Go modules with code of ours. The other modules below tools/ pin programs; the few
# lines of tools/kind-node would have all of Kubernetes compiled.
OUR_MODULES := . lab kit examples tools/benchstat

.PHONY: test
test: verify lint-text test-modules test-base test-memapi ## Run verify, all unit tests, the simulation, the kit, the examples and the conformance test, and look at format and budgets.

.PHONY: test-base
test-base: test-unit test-simulation test-kit test-examples test-conformance ## Run what of it depends on the base (for BASE=v0.14).

.PHONY: lint
lint: lint-text vet ## Check format and budgets, go vet and staticcheck, and that no message decides: our modules, the overlay, the touched packages.

# What needs no compiler.
.PHONY: lint-text
lint-text: lab-tree
	$(call say,the budgets and docs/upstream.md)
	@$(MAKE) size
	@$(PATCHSET) upstream-page --check
	$(call say,the mutants change a line of the tree each)
	@cd lab/simulation && go run ./overlay mutants $(TREE_DIR) $(MUTANTS_DIR)
	$(call say,gofmt)
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 $$(go env GOROOT)/bin/gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "error: not formatted (run gofmt -w, in the tree for overlay files):" >&2; echo "$$unformatted" >&2; exit 1; fi
	$(call say,licence headers)
	@missing=$$(git ls-files '*.go' | xargs grep -L 'Copyright The Kubernetes Authors' || true); \
	if [ -n "$$missing" ]; then echo "error: no licence header (copy that of pkg/workload/requeue/next.go):" >&2; echo "$$missing" >&2; exit 1; fi

.PHONY: vet
vet: lab-tree $(BIN)/staticcheck $(BIN)/lint
	@for module in $(OUR_MODULES); do \
		echo "==> go vet and staticcheck in $$module"; \
		(cd $$module && go vet ./... && $(BIN)/staticcheck ./...); \
	done
	$(call say,go vet of the touched packages)
	@packages=$$($(PATCHSET) touched); if [ -n "$$packages" ]; then cd $(TREE_DIR) && go vet $$packages; fi
	$(call say,nothing in the overlay is decided from the text of a message)
	@packages=$$($(PATCHSET) touched --unit); if [ -n "$$packages" ]; then cd $(TREE_DIR) && $(BIN)/lint -test=false -overlay $(PROJECT) $$packages; fi

$(BIN)/staticcheck: go.mod go.sum
	$(call say,building build/bin/staticcheck)
	@go build -o $@ honnef.co/go/tools/cmd/staticcheck
	@touch $@

$(BIN)/lint: go.mod go.sum tools/lint/main.go tools/lint/messages/messages.go
	@go build -o $@ ./tools/lint
	@touch $@

# What is not touched, jobs that go through jobframework among it, "make test-upstream" runs.
UNIT_GATES ?= off on

.PHONY: test-unit
test-unit: fresh-tree ## Run upstream's and our unit tests of the touched packages, gate off and on (UNIT_GATES="off on").
	@packages=$$($(PATCHSET) touched --unit); \
	if [ -z "$$packages" ]; then echo "==> no package is touched"; exit 0; fi; \
	tools/gate-on.sh $(TREE) $(GATE_ON_DIR); \
	cd $(TREE_DIR); \
	$(if $(filter off,$(UNIT_GATES)),echo "==> unit tests of the touched packages$(comma) gate off:" $$packages; go test $$packages;) \
	$(if $(filter on,$(UNIT_GATES)),echo "==> the same$(comma) gate on"; go test $(GATE_ON_TESTFLAGS) $$packages)

.PHONY: test-modules
test-modules: fresh-tree ## Run the unit tests of our Go modules: the laboratory, the kit, the examples, the tools but for the patch tool.
	@plain=$$(cd $(BASE_PIN) && go list -m -f '{{.Dir}}' $(BASE_MODULE)); \
	for module in $(OUR_MODULES); do \
		echo "==> tests of our module in $$module"; \
		(cd $$module && PLAIN=$$plain PATCHED_TREE=$(TREE_DIR) go test -short -timeout 30m $$(go list ./... | grep -v /tools/patchset)); \
	done

.PHONY: test-tools
test-tools: fresh-tree ## Run the tests of the tools, those that take minutes, too, as all of the patch tool do (TOOLS_FLAGS=-short).
	@go test $(TOOLS_FLAGS) -timeout 30m ./...

.PHONY: test-observability
test-observability: fresh-tree $(BIN)/promtool ## Check the alerting rules and the dashboard of docs/observability with promtool.
	$(call say,alerting rules and dashboard)
	@$(BIN)/promtool check rules docs/observability/rules.yaml
	@$(BIN)/promtool test rules docs/observability/rules_test.yaml
	@cd lab && go test -count=1 ./docs/observability

.PHONY: test-docs
test-docs: build kueuectl envtest docs-tools lab-tree $(call plain_manager,v0.19) ## Run every command and manifest of docs/ against a real API server and the patched manager.
	$(call say,the commands and manifests of the documentation)
	@cd lab && DOCS_BIN_DIR=$(BASE_BIN_DIR) DOCS_TREE_DIR=$(TREE_DIR) go test -count=1 -v -parallel 4 -timeout 20m ./docs/pages

RACE_CHECKS ?= 40

# The race detector needs a C compiler.
.PHONY: test-race
test-race: simulation-source ## Run our unit tests and some schedules of the simulation with the race detector.
	@command -v gcc >/dev/null || { echo "error: the race detector needs gcc, which is not installed: apt-get install gcc libc6-dev" >&2; exit 1; }
	$(call say,race detector: unit tests of the touched packages (compiling takes minutes when nothing is cached))
	@packages=$$($(PATCHSET) touched --unit); tools/gate-on.sh $(TREE) $(GATE_ON_DIR); \
	cd $(TREE_DIR) && CGO_ENABLED=1 go test -race $(GATE_ON_TESTFLAGS) $$packages
	$(call say,race detector: $(RACE_CHECKS) schedules of the simulation$(comma) on all cores)
	@cd $(SIMULATION_DIR) && CGO_ENABLED=1 SIMULATION_THREADS=0 go test -race -run 'TestSimulation' -rapid.seed=$(SIMULATION_SEED) -rapid.checks=$(RACE_CHECKS) -timeout 15m .

# A pattern of the commands in that page.
PERIODIC ?= .

.PHONY: periodic
periodic: ## Run what .ci/run has no time for, and keep in docs/periodic.md how it ended (an hour and more; PERIODIC=pattern).
	@tools/periodic.sh docs/periodic.md '$(PERIODIC)' $(COMMIT)

INTEGRATION_GATE ?= off
INTEGRATION_TARGET ?= $(addprefix ./test/integration/singlecluster/,$(INTEGRATION_SUITES))
# Each process has a control plane of its own; the specs mostly wait.
INTEGRATION_PROCS ?= 3
GINKGO_ARGS ?=
# An empty pattern would match, and so leave out, every spec.
GINKGO_FLAGS = $(if $(filter-out '',$(GINKGO_SKIP)), --skip $(GINKGO_SKIP))
GATE_ON_GINKGO_FLAGS = $(if $(filter-out '',$(GATE_ON_GINKGO_SKIP)), --skip $(GATE_ON_GINKGO_SKIP))

.PHONY: dep-crds
dep-crds: fresh-tree
	$(call say,writing the CRDs that the suites read to $(TREE))
	@$(PATCHSET) dep-crds

.PHONY: test-integration
test-integration: fresh-tree envtest dep-crds ## Run envtest suites in the tree (INTEGRATION_TARGET="./test/...", INTEGRATION_GATE=on, INTEGRATION_PROCS, GINKGO_ARGS).
	$(call say,integration suites$(comma) gate $(INTEGRATION_GATE) by default: $(INTEGRATION_TARGET) (compiling takes minutes when nothing is cached))
	@$(if $(filter on,$(INTEGRATION_GATE)),tools/gate-on.sh $(TREE) $(GATE_ON_DIR))
	@cd $(TREE_DIR) && GOFLAGS="$(GOFLAGS)$(if $(filter on,$(INTEGRATION_GATE)), -overlay=$(GATE_ON_DIR)/overlay.json)" KUBEBUILDER_ASSETS=$(BIN) PROJECT_DIR=$(TREE_DIR)/ ENVTEST_K8S_VERSION=$(basename $(KUBE_VERSION)) \
		go run github.com/onsi/ginkgo/v2/ginkgo run --trimpath --output-interceptor-mode=none --keep-going --procs=$(INTEGRATION_PROCS)$(if $(filter on,$(INTEGRATION_GATE)),$(GATE_ON_GINKGO_FLAGS),$(GINKGO_FLAGS)) $(GINKGO_ARGS) $(INTEGRATION_TARGET)

# A regular expression of suites, as "make test-upstream UPSTREAM_FLAGS=--list" has them.
UPSTREAM_SUITES ?= .
# For example --again, --gates=on; see "go run ./tools/upstream --help".
UPSTREAM_FLAGS ?=
UPSTREAM_TESTS = go run ./tools/upstream --base $(BASE) --tree $(TREE) --bin $(BIN) --kueuectl $(BASE_BIN) --overlay $(GATE_ON_DIR)/overlay.json --out build/upstream$(BASE_SUFFIX) $(if $(AS_IS),--as-is)

.PHONY: test-upstream
test-upstream: fresh-tree envtest kubectl dep-crds kueuectl ## Run all of upstream's unit tests and envtest suites, gate off and on, what was run longest ago first, and keep the results in docs/upstream-tests (hours; UPSTREAM_SUITES=pattern, UPSTREAM_FLAGS=--list, INTEGRATION_PROCS).
	@tools/gate-on.sh $(TREE) $(GATE_ON_DIR)
	@exec $(UPSTREAM_TESTS) --kubernetes $(basename $(KUBE_VERSION)) --procs $(INTEGRATION_PROCS) --ginkgo-args "$(GINKGO_ARGS)" --suites '$(value UPSTREAM_SUITES)' $(UPSTREAM_FLAGS)

.PHONY: upstream-report
upstream-report: fresh-tree ## Write docs/upstream-tests.md from docs/upstream-tests, after a merge or a change of base.yaml.
	@$(UPSTREAM_TESTS) --report
