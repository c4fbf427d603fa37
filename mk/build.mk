##@ Building

kube_version_of = $(shell sed -n 's/^\tk8s.io\/kubernetes v\([0-9.]*\).*/\1/p' $(1)/go.mod)
# kubeadm reads its version from client-go, the others from component-base.
kube_ldflags = -s -w $(foreach package,component-base/version client-go/pkg/version,-X k8s.io/$(package).gitVersion=v$(1) -X k8s.io/$(package).gitMajor=1 -X k8s.io/$(package).gitMinor=$(word 2,$(subst ., ,$(1))))
# Of the API server that all bases are tried on, and of kind's nodes.
SERVER_VERSION := $(call kube_version_of,tools/kube-apiserver)
NODE_VERSION := $(call kube_version_of,tools/kind-node)
SERVER_LDFLAGS := $(call kube_ldflags,$(SERVER_VERSION))
BASE_BIN_DIR = $(PROJECT)/$(BASE_BIN)

.PHONY: build
build: fresh-tree base-bin ## Build build/bin/manager from the patched tree (build/bin/v0.14/manager for that base).
	$(call say,building $(BASE_BIN)/manager $(VERSION) (about 4 minutes when nothing is cached))
	@cd $(TREE_DIR) && go build -ldflags "$(MANAGER_LDFLAGS)" -o $(BASE_BIN_DIR)/manager ./cmd/kueue

# kubectl finds it as "kubectl kueue", by its other name.
.PHONY: kueuectl
kueuectl: fresh-tree base-bin ## Build build/bin/kueuectl, the plugin of kubectl, from the patched tree (build/bin/v0.14/kueuectl for that base).
	$(call say,building $(BASE_BIN)/kueuectl $(VERSION) (about 2 minutes when nothing is cached))
	@cd $(TREE_DIR) && go build -ldflags "$(MANAGER_LDFLAGS)" -o $(BASE_BIN_DIR)/kueuectl ./cmd/kueuectl
	@ln -sfn kueuectl $(BASE_BIN_DIR)/kubectl-kueue

# A control plane takes all its programs from one folder.
SHARED_PROGRAMS := etcd kube-apiserver kubectl jq promtool cluster budget capacity health

.PHONY: base-bin
base-bin: need-tools
	@$(if $(BASE_SUFFIX),mkdir -p $(BASE_BIN) && ln -sfn $(addprefix ../,$(SHARED_PROGRAMS)) $(BASE_BIN))

# Plain releases, which mk/bench.mk builds.
plain_manager = $(PROJECT)/build/bench/versions/$(call base_says,$(1),version)/manager
PLAIN_MANAGERS := $(foreach base,v0.19 v0.14,$(call plain_manager,$(base)))

.PHONY: examples
examples: need-tools ## Build the three check controllers of examples/ into build/bin.
	$(call say,building build/bin/budget$(comma) capacity and health)
	@cd examples && go build -o $(BIN)/ ./budget ./capacity ./health

.PHONY: envtest
envtest: need-tools $(BIN)/etcd $(BIN)/kube-apiserver ## Build build/bin/etcd and build/bin/kube-apiserver from Go modules.

.PHONY: kubectl
kubectl: need-tools $(BIN)/kubectl ## Build build/bin/kubectl from Go modules.

.PHONY: docs-tools
docs-tools: kubectl $(BIN)/jq $(BIN)/promtool ## Build build/bin/kubectl, jq and promtool from Go modules, for the commands of the documentation.

$(BIN)/etcd: tools/etcd/go.mod tools/etcd/go.sum
	$(call say,building build/bin/etcd (about half a minute when nothing is cached))
	@cd tools/etcd && go build -o $@ go.etcd.io/etcd/server/v3
	@touch $@

$(BIN)/kube-apiserver: tools/kube-apiserver/go.mod tools/kube-apiserver/go.sum
	$(call say,building build/bin/kube-apiserver $(SERVER_VERSION) (about 4 minutes when nothing is cached))
	@cd tools/kube-apiserver && go build -ldflags "$(SERVER_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/kube-apiserver
	@touch $@

$(BIN)/kubectl: tools/kube-apiserver/go.mod tools/kube-apiserver/go.sum
	$(call say,building build/bin/kubectl $(SERVER_VERSION) (about 2 minutes when nothing is cached))
	@cd tools/kube-apiserver && go build -ldflags "$(SERVER_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/kubectl
	@touch $@

$(BIN)/jq: tools/jq/go.mod tools/jq/go.sum
	$(call say,building build/bin/jq)
	@cd tools/jq && go build -o $@ github.com/itchyny/gojq/cmd/gojq
	@touch $@

# Without the service discoveries, which would have the SDKs of all clouds compiled.
$(BIN)/promtool: tools/promtool/go.mod tools/promtool/go.sum
	$(call say,building build/bin/promtool (about 3 minutes when nothing is cached))
	@cd tools/promtool && go build -tags remove_all_sd -ldflags "-s -w" -o $@ github.com/prometheus/prometheus/cmd/promtool
	@touch $@

.PHONY: clean
clean: ## Remove what was built. The tree stays: it may hold work (remove it by hand).
	$(call say,removing all in build/ but build/kueue*)
	@find build -mindepth 1 -maxdepth 1 ! -name 'kueue*' -exec chmod -R u+w {} + -exec rm -rf {} +
