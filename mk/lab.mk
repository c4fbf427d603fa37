##@ The laboratory

# How many schedules the simulation runs with each way of writing.
SIMULATION_CHECKS ?= 200
# The same schedules each time; "make soak" runs others.
SIMULATION_SEED ?= 20261121
MUTANT_SCHEDULES ?= 120
# With the gate off each one runs eight times or more, on the base's code and on ours.
GATE_OFF_SCHEDULES ?= $(shell echo $$(($(SIMULATION_CHECKS) < 200 ? 10 : $(SIMULATION_CHECKS) / 10)))
# Parts of it: the mutants, for one, are the same on all bases.
SIMULATION_PARTS ?= apply merge-patch gate mutants
SIMULATION := $(BIN)/simulation$(BASE_SUFFIX).test
MUTANTS_DIR := $(PROJECT)/build/mutants$(BASE_SUFFIX)
BASELINE_DIR := $(PROJECT)/build/baseline$(BASE_SUFFIX)
# It is written for v0.19, and rewritten for the other bases.
SIMULATION_DIR := $(if $(BASE_SUFFIX),build/lab$(BASE_SUFFIX),lab)/simulation
IN_SIMULATION = cd $(SIMULATION_DIR) && $(1) -test.timeout 60m -test.v -test.run

.PHONY: test-simulation
test-simulation: fresh-tree simulation-binaries ## Run random schedules of the real code, and show that it finds known mistakes (SIMULATION_CHECKS=200).
	$(call say,simulation ($(SIMULATION_PARTS)): $(SIMULATION_CHECKS) schedules with each way of writing (minutes))
	@$(MAKE) -j2 --output-sync=target AS_IS=1 $(addprefix simulate-,$(SIMULATION_PARTS))

.PHONY: simulation-source simulation-binaries simulate-apply simulate-merge-patch simulate-gate simulate-mutants
simulation-source: fresh-tree
	@$(if $(BASE_SUFFIX),$(PATCHSET) beside)

simulation-binaries: simulation-source
	$(call say,building the simulation as it is; with the mutants; with upstream's code)
	@cd $(SIMULATION_DIR) && go test -c -o $(SIMULATION) . && \
	go run ./overlay mutants $(TREE_DIR) $(MUTANTS_DIR) && \
	go test -overlay $(MUTANTS_DIR)/overlay.json -c -o $(SIMULATION)-mutants . && \
	go run ./overlay baseline $(TREE_DIR) $(BASELINE_DIR) && \
	go test -overlay $(BASELINE_DIR)/overlay.json -c -o $(SIMULATION)-baseline .

simulate-apply:
	@$(call IN_SIMULATION,$(SIMULATION)) 'TestSimulation/apply|TestReplay' -rapid.seed=$(SIMULATION_SEED) -rapid.checks=$(SIMULATION_CHECKS)

simulate-merge-patch:
	@$(call IN_SIMULATION,$(SIMULATION)) TestSimulation/merge_patch -rapid.seed=$(SIMULATION_SEED) -rapid.checks=$(SIMULATION_CHECKS)

simulate-gate:
	@rm -f $(BASELINE_DIR)/traces.json
	@export BASELINE_TRACES=$(BASELINE_DIR)/traces.json BASELINE_SCHEDULES=$(GATE_OFF_SCHEDULES) BASELINE_PROGRAM=$(SIMULATION)-baseline; \
	($(call IN_SIMULATION,$(SIMULATION)-baseline) TestGateOff) && \
	($(call IN_SIMULATION,$(SIMULATION)) 'TestGateOff|TestGateSwitched|TestPolicy|TestCohort|TestReach' -rapid.seed=$(SIMULATION_SEED) -rapid.checks=$$(($(SIMULATION_CHECKS) * 3 / 10)))

simulate-mutants:
	@export MUTANT_SCHEDULES=$(MUTANT_SCHEDULES) MUTANTS_OVERLAY=$(MUTANTS_DIR)/overlay.json MUTANTS_TREE=$(TREE_DIR); \
	$(call IN_SIMULATION,$(SIMULATION)-mutants) TestMutants

# How many schedules: about a minute. CRDs and libraries are those of the base. On v0.14 the
# libraries are older than the API server, so this is not part of "make test-base".
MEMAPI_CHECKS ?= 250
MEMAPI_FAULTS ?= 200
FAULTS_DIR := $(PROJECT)/build/memapi-faults$(BASE_SUFFIX)
MEMAPI := $(BIN)/memapi$(BASE_SUFFIX).test

.PHONY: test-memapi
test-memapi: simulation-source envtest ## Hold the API in memory against the real one (MEMAPI_CHECKS=250).
	$(call say,memapi against kube-apiserver: $(MEMAPI_CHECKS) schedules)
	@cd $(SIMULATION_DIR) && go test -c -o $(MEMAPI) ./memapi
	@export MEMAPI_BIN_DIR=$(BIN) MEMAPI_TREE_DIR=$(TREE_DIR); cd $(SIMULATION_DIR)/memapi && \
	$(MEMAPI) -test.timeout 0 -test.v -test.run TestAgainstReal -rapid.seed=$(SIMULATION_SEED) -rapid.checks=$(MEMAPI_CHECKS)

.PHONY: test-memapi-faults
test-memapi-faults: simulation-source envtest ## Show that the comparison with the real API server finds each known fault of the one in memory.
	$(call say,memapi with one fault at a time (three minutes))
	@cd $(SIMULATION_DIR) && go run ./overlay faults memapi $(FAULTS_DIR) && \
	go test -overlay $(FAULTS_DIR)/overlay.json -c -o $(MEMAPI)-faults ./memapi
	@export MEMAPI_BIN_DIR=$(BIN) MEMAPI_TREE_DIR=$(TREE_DIR) MEMAPI_FAULTS=$(MEMAPI_FAULTS); cd $(SIMULATION_DIR)/memapi && \
	$(MEMAPI)-faults -test.timeout 60m -test.v -test.run TestFaults

SOAK_MINUTES ?= 30
SOAK_PROCESSES ?= $(shell nproc)
# What a soak was running, and the shortened schedule of a failure: soak-SEED.json.
SOAK_OUT := $(PROJECT)/build/soak$(BASE_SUFFIX)
# One of these, to see how often it breaks a rule.
SOAK_REPLAY ?=

.PHONY: soak
soak: simulation-source ## Run the simulation for SOAK_MINUTES=30, one process a core (BASE; SOAK_RECORD=docs/soak.md adds a line each to the page; SOAK_REPLAY=file runs a schedule again).
	@cd $(SIMULATION_DIR) && go test -c -o $(SIMULATION) .
	@mkdir -p $(SOAK_OUT)
	@export SOAK_MINUTES=$(SOAK_MINUTES) SOAK_PROCESSES=$(SOAK_PROCESSES) SOAK_OUT=$(SOAK_OUT) SOAK_BASE=$(BASE) SOAK_COMMIT=$(COMMIT) \
		SOAK_RECORD=$(abspath $(SOAK_RECORD)) SOAK_REPLAY=$(abspath $(SOAK_REPLAY)); cd $(SIMULATION_DIR) && \
	exec $(SIMULATION) -test.timeout 0 -test.run $(if $(SOAK_REPLAY),TestSoakReplay,TestSoak$$)

CONFORMANCE := $(BIN)/conformance.test
export CHECK COMMAND MANIFESTS JOB RETRY RETRY_MANIFEST READY READY_MANIFEST RUN_AS CONTROLLER_NAME

# Before what takes minutes. The test itself looks at them again.
.PHONY: conformance-arguments
conformance-arguments:
	@wrong() { echo "error: $$* (see lab/conformance/README.md)" >&2; exit 1; }; \
	test -n "$$CHECK" -a -n "$$COMMAND" || wrong "say which: make conformance CHECK=name COMMAND='my-controller --flag'"; \
	[[ $$CHECK =~ ^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$$ ]] || wrong "CHECK=$$CHECK is not a DNS label: at most 63 of a-z, 0-9 and -, no - at the ends"; \
	for name in MANIFESTS JOB RETRY_MANIFEST READY_MANIFEST; do \
		[ -z "$${!name}" ] || [ -f "$${!name}" ] || wrong "$$name=$${!name}: there is no such file"; \
	done

.PHONY: conformance
conformance: conformance-arguments build envtest lab-tree ## Test the controller of an admission check (CHECK=name COMMAND='...'; see lab/conformance/README.md).
	@cd lab && go test -c -o $(CONFORMANCE) ./conformance
	@exec $(CONFORMANCE) -test.run '^TestController$$' -check "$$CHECK" -command "$$COMMAND" -manifests "$$MANIFESTS" -job "$$JOB" \
		-retry "$$RETRY" -retry-manifest "$$RETRY_MANIFEST" -ready "$$READY" -ready-manifest "$$READY_MANIFEST" \
		-as "$$RUN_AS" -controller-name "$$CONTROLLER_NAME" \
		-bin-dir $(BASE_BIN) -out build/conformance$(BASE_SUFFIX) -tree-dir $(TREE) $(CONFORMANCE_ARGS)

.PHONY: test-conformance
test-conformance: build envtest lab-tree ## Try the conformance test on a controller with faults, and on the examples.
	$(call say,the conformance test on known faults and on the examples (about 2 minutes))
	@command -v python3 >/dev/null || echo "==> LEFT OUT: the conformance test of the example in Python, because python3 is not installed"
	@cd lab && go test -count=1 -timeout 15m ./conformance -bin-dir $(BASE_BIN_DIR) -out $(PROJECT)/build/conformance$(BASE_SUFFIX) -tree-dir $(TREE_DIR)

.PHONY: test-kit
test-kit: build envtest cluster-tool ## Try the kit for authors of checks on a real API server, with Kueue's manager.
	$(call say,the kit on a real API server)
	@cd kit && KIT_BIN_DIR=$(BASE_BIN_DIR) KIT_TREE_DIR=$(TREE_DIR) go test -count=1 -run TestWithKueue .

.PHONY: test-examples
test-examples: build envtest examples cluster-tool ## Try the examples on a real API server, with Kueue's manager.
	$(call say,the examples on a real API server)
	@cd lab && EXAMPLES_BIN=$(BASE_BIN_DIR) EXAMPLES_TREE=$(TREE_DIR) go test -count=1 ./examples

FAULTS_MINUTES ?= 30
# One of lab/simulation/mutants, to see that it is found: FAULTS_MUTANT=deadline-from-the-transition-alone
FAULTS_MUTANT ?=
# See "build/bin/faults --help".
FAULTS_FLAGS ?=

.PHONY: test-faults
test-faults: build envtest lab-tree $(if $(FAULTS_MUTANT),manager-mutants) ## Kill managers and the API server, and delay, drop and cut what is between them: nothing early, stuck or lost (FAULTS_MINUTES=30, FAULTS_MUTANT=name).
	@cd lab && go build -o $(BIN)/ ./faults
	@exec $(BIN)/faults --bin-dir $(BASE_BIN_DIR) --tree-dir $(TREE_DIR) --out build/faults$(BASE_SUFFIX) --minutes $(FAULTS_MINUTES) \
		$(if $(FAULTS_MUTANT),--manager $(BASE_BIN_DIR)/manager-mutants --mutant $(FAULTS_MUTANT)) $(FAULTS_FLAGS)

.PHONY: manager-mutants
manager-mutants: simulation-source base-bin
	$(call say,building $(BASE_BIN)/manager-mutants$(comma) with known mistakes)
	@cd $(SIMULATION_DIR) && go run ./overlay mutants $(TREE_DIR) $(MUTANTS_DIR)
	@cd $(TREE_DIR) && go build -overlay $(MUTANTS_DIR)/overlay.json -o $(BASE_BIN_DIR)/manager-mutants ./cmd/kueue

.PHONY: test-poison
test-poison: build envtest lab-tree $(call plain_manager,v0.19) ## Show what a number too large does to plain v0.19.2, and that this Kueue refuses it.
	$(call say,a number that is too large$(comma) on plain Kueue and here)
	@cd lab && POISON_BIN=$(BASE_BIN_DIR) POISON_TREE=$(TREE_DIR) POISON_PLAIN=$(dir $(call plain_manager,v0.19)) go test -count=1 -v ./poison

.PHONY: cluster-tool
cluster-tool: lab-tree base-bin
	@cd lab && go build -o $(BIN)/ ./cluster

.PHONY: cluster
cluster: build envtest examples cluster-tool ## Start a control plane with the patched Kueue to try things on (GATE=off: without the feature).
	@exec $(BIN)/cluster --gate=$(GATE_VALUE) --bin-dir $(BASE_BIN) --out build/cluster$(BASE_SUFFIX) --tree-dir $(TREE)

.PHONY: demo
demo: build envtest lab-tree ## Show a delayed retry on a real control plane (GATE=off: without the feature).
	$(call say,building the demo)
	@cd lab && go build -o $(BIN)/ ./demo
	@exec $(BIN)/demo --kueue $(BASE_VERSION) --gate=$(GATE_VALUE) --bin-dir $(BASE_BIN) --out build/demo$(BASE_SUFFIX) --tree-dir $(TREE)

# One of those that "build/bin/compare --help" lists; without: all.
PROBE ?=

.PHONY: compare
compare: build envtest lab-tree $(PLAIN_MANAGERS) ## Show what a delayed retry does with plain v0.19.2, plain v0.14.8 and here, as README has it (PROBE=quota; GATE=off; 80 seconds).
	$(call say,building the comparison)
	@cd lab && go build -o $(BIN)/ ./compare
	@exec $(BIN)/compare --gate=$(GATE_VALUE) --bin-dir $(BASE_BIN) --out build/compare$(BASE_SUFFIX) --tree-dir $(TREE) \
		--versions-dir build/bench/versions $(if $(PROBE),--probes $(PROBE))
