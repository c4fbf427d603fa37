##@ Measuring

BENCH_DIR := $(PROJECT)/build/bench
# How many workloads, one number after the other; 5000 takes half an hour more.
BENCH_SIZES ?= 100,1000
# For example --builds gate-on --scenarios herd --profile; see "build/bin/bench --help".
BENCH_FLAGS ?=

# Plain releases, each built in its own module, with upstream's dependencies.
$(foreach base,$(BASES),$(eval $(call plain_manager,$(base)): $(call base_says,$(base),pin)/go.mod))
$(BENCH_DIR)/versions/%/manager:
	$(call say,building the manager of plain Kueue $* (about 4 minutes when nothing is cached))
	@cd $(dir $<) && go mod download sigs.k8s.io/kueue && source=$$(go list -m -f '{{.Dir}}' sigs.k8s.io/kueue) && \
	mkdir -p $(@D) && ln -sfn $$source $(@D)/source && \
	cd $$source && go build -ldflags "-s -w" -o $@ ./cmd/kueue
	@touch $@

.PHONY: bench
bench: build envtest lab-tree $(PLAIN_MANAGERS) ## Measure delayed retries with this Kueue, v0.14.8 and v0.19.2 (BENCH_SIZES=100,1000; BENCH_FLAGS; about 27 minutes on a quiet machine).
	@cd lab && go build -o $(BIN)/ ./bench
	@exec $(BIN)/bench --bin-dir $(BASE_BIN_DIR) --tree-dir $(TREE_DIR) --versions-dir $(BENCH_DIR)/versions --out $(BENCH_DIR) --commit $(COMMIT) --sizes $(BENCH_SIZES) $(BENCH_FLAGS)

.PHONY: bench-scheduler
bench-scheduler: fresh-tree envtest ## Run upstream's benchmark of the scheduler with the gate off and on in turn (BENCH_ROUNDS=3; a minute and a half each).
	$(call say,building upstream's benchmark of the scheduler with the gate off and on)
	@tools/gate-on.sh $(TREE) $(GATE_ON_DIR)
	@cd $(TREE_DIR) && go build -o $(BIN)/scheduler-runner ./test/performance/scheduler/runner && \
	go build -o $(BIN)/minimalkueue-off ./test/performance/scheduler/minimalkueue && \
	go build -overlay $(GATE_ON_DIR)/overlay.json -o $(BIN)/minimalkueue-on ./test/performance/scheduler/minimalkueue && \
	cd $(PROJECT)/lab && go build -o $(BIN)/bench-scheduler ./bench/scheduler
	@exec $(BIN)/bench-scheduler --bin-dir $(BIN) --tree-dir $(TREE_DIR) --out $(BENCH_DIR) --rounds $(BENCH_ROUNDS)

BENCH_ROUNDS ?= 3

.PHONY: bench-report
bench-report: need-tools ## Write docs/performance.md from the results of "make bench" and "make bench-scheduler".
	@cd lab && go run ./bench/report --run $(BENCH_DIR)/run.json --throughput $(BENCH_DIR)/throughput.json \
		--notes bench/report/notes.md --out $(PROJECT)/docs/performance.md --pictures $(PROJECT)/docs/performance

# "benchstat old new" compares the outputs of two versions.
BENCH_ARGS ?= -count=6
BENCH_GO_PACKAGES := ./pkg/workload ./pkg/cache/queue ./pkg/metrics

.PHONY: bench-go
bench-go: fresh-tree ## Run the Go benchmarks of what the patches added, for benchstat (BENCH_ARGS="-count=6").
	@cd $(TREE_DIR) && go test -run '^$$' -bench 'Retry' $(BENCH_ARGS) $(BENCH_GO_PACKAGES)
