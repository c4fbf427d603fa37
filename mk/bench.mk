##@ Measuring

BENCH_DIR := $(PROJECT)/build/bench
# How many workloads, one number after the other; 5000 takes half an hour more.
BENCH_SIZES ?= 100,1000
# For example --builds v0.19-gate-on --scenarios herd --profile; see "build/bin/bench --help".
BENCH_FLAGS ?=

# Plain releases, each built in its own module, with upstream's dependencies.
$(foreach base,$(RELEASES),$(eval $(call plain_manager,$(base)): $(call base_says,$(base),pin)/go.mod))
$(BENCH_DIR)/versions/%/manager:
	$(call say,building the manager of plain Kueue $* (about 4 minutes when nothing is cached))
	@cd $(dir $<) && go mod download sigs.k8s.io/kueue && source=$$(go list -m -f '{{.Dir}}' sigs.k8s.io/kueue) && \
	mkdir -p $(@D) && ln -sfn $$source $(@D)/source && \
	cd $$source && go build -ldflags "-s -w" -o $@ ./cmd/kueue
	@touch $@

BENCH = $(BIN)/bench --bin-dir $(BIN) --tree-dir $(PROJECT)/$(call base_says,v0.19,tree) --guest-bin-dir $(BIN)/v0.14 --guest-tree-dir $(PROJECT)/$(call base_says,v0.14,tree) \
	--versions-dir $(BENCH_DIR)/versions --out $(BENCH_DIR) --commit $(COMMIT)

.PHONY: bench
bench: bench-binaries ## Measure delayed retries on both bases, with this Kueue, v0.19.2 and v0.14.8 (BENCH_SIZES=100,1000; BENCH_FLAGS; under 30 minutes on a quiet machine).
	@exec $(BENCH) --sizes $(BENCH_SIZES) $(BENCH_FLAGS)

.PHONY: bench-storm
bench-storm: bench-binaries bench-kept ## Add checks that say Retry again and again, three rounds, and the same with a delay or a policy, to the results of "make bench" (an hour).
	@exec $(BENCH) --add --sizes 1000 --scenarios bare,policy,jitter,busy --rounds 3 $(BENCH_FLAGS)

.PHONY: bench-ten-thousand
bench-ten-thousand: bench-binaries bench-kept ## Add 100, 1,000 and 10,000 workloads with one deadline, with deadlines apart, and restarts while they wait, to the results of "make bench" (two hours).
	@exec $(BENCH) --add --builds v0.19-gate-on,v0.14-gate-on --sizes 100,1000,10000 --scenarios herd,spread,waiting,restart $(BENCH_FLAGS)

.PHONY: bench-binaries
bench-binaries: envtest lab-tree $(PLAIN_MANAGERS)
	@$(foreach base,$(RELEASES),$(MAKE) BASE=$(base) build && ):
	@cd lab && go build -o $(BIN)/ ./bench

.PHONY: bench-scheduler
bench-scheduler: fresh-tree base-bin envtest ## Run upstream's benchmark of the scheduler with the gate off and on in turn (BASE; BENCH_ROUNDS=5; a minute and a half each).
	$(call say,building upstream's benchmark of the scheduler with the gate off and on)
	@tools/gate-on.sh $(TREE) $(GATE_ON_DIR)
	@cd $(TREE_DIR) && go build -o $(BASE_BIN_DIR)/scheduler-runner ./test/performance/scheduler/runner && \
	go build -o $(BASE_BIN_DIR)/minimalkueue-off ./test/performance/scheduler/minimalkueue && \
	go build -overlay $(GATE_ON_DIR)/overlay.json -o $(BASE_BIN_DIR)/minimalkueue-on ./test/performance/scheduler/minimalkueue && \
	cd $(PROJECT)/lab && go build -o $(BIN)/bench-scheduler ./bench/scheduler
	@exec $(BIN)/bench-scheduler --base $(BASE) --bin-dir $(BASE_BIN_DIR) --tree-dir $(TREE_DIR) --out $(BENCH_DIR) --commit $(COMMIT) --rounds $(BENCH_ROUNDS)

BENCH_ROUNDS ?= 5

# The results behind docs/performance.md, for a report or more results in another clone.
BENCH_KEPT = $(PROJECT)/docs/performance

.PHONY: bench-kept
bench-kept:
	@mkdir -p $(BENCH_DIR) && for kept in $(wildcard $(BENCH_KEPT)/*.json); do \
		[ -e $(BENCH_DIR)/$${kept##*/} ] || cp $$kept $(BENCH_DIR); \
	done

.PHONY: bench-report
bench-report: need-tools bench-kept ## Write docs/performance.md from the results of "make bench" and the others, and keep them next to it.
	@cd lab && go run ./bench/report --run $(BENCH_DIR)/run.json --throughput $(BENCH_DIR)/throughput-v0.19.json,$(BENCH_DIR)/throughput-v0.14.json \
		--notes bench/report/notes.md --out $(PROJECT)/docs/performance.md --pictures $(BENCH_KEPT)
	@cp $(BENCH_DIR)/*.json $(BENCH_KEPT)

BENCH_ARGS ?= -count=6
BENCH_GO_PACKAGES := ./pkg/workload/requeue ./pkg/cache/queue
BENCH_GO_RUN = $(BENCH_DIR)/go$(BASE_SUFFIX).txt
# Those of the last release.
BENCH_GO_FIGURES = $(PROJECT)/lab/bench/go/$(BASE).txt

.PHONY: bench-go
bench-go: bench-go-run ## Run the Go benchmarks of what the patches added, and compare them with those of the last release: a tenth more allocations fail (BASE; BENCH_ARGS="-count=6").
	@cd tools/benchstat && go tool benchstat $(BENCH_GO_FIGURES) $(BENCH_GO_RUN) && go run . $(BENCH_GO_FIGURES) $(BENCH_GO_RUN)
	@echo "No benchmark allocates a tenth more than those of the last release."

.PHONY: bench-go-record
bench-go-record: bench-go-run ## Run the Go benchmarks, and keep their results as those of the last release.
	@mkdir -p $(dir $(BENCH_GO_FIGURES)) && grep -E '^(Benchmark|goos:|goarch:|pkg:|cpu:)' $(BENCH_GO_RUN) >$(BENCH_GO_FIGURES)

.PHONY: bench-go-run
bench-go-run: fresh-tree
	@mkdir -p $(BENCH_DIR) && cd $(TREE_DIR) && go test -run '^$$' -bench Retry -benchmem $(BENCH_ARGS) $(BENCH_GO_PACKAGES) >$(BENCH_GO_RUN) || { cat $(BENCH_GO_RUN); exit 1; }
