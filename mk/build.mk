##@ Building

# kubeadm reads its version from client-go, the others from component-base.
KUBE_LDFLAGS := -s -w $(foreach package,component-base/version client-go/pkg/version,-X k8s.io/$(package).gitVersion=v$(KUBE_VERSION) -X k8s.io/$(package).gitMajor=1 -X k8s.io/$(package).gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION))))

.PHONY: build
build: fresh-tree ## Build build/bin/manager from the patched tree.
	$(call say,building build/bin/manager $(VERSION) (about 4 minutes when nothing is cached))
	@cd $(TREE_DIR) && go build -ldflags "$(MANAGER_LDFLAGS)" -o $(BIN)/manager ./cmd/kueue

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
	$(call say,building build/bin/kube-apiserver $(KUBE_VERSION) (about 4 minutes when nothing is cached))
	@cd tools/kube-apiserver && go build -ldflags "$(KUBE_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/kube-apiserver
	@touch $@

$(BIN)/kubectl: tools/kube-apiserver/go.mod tools/kube-apiserver/go.sum
	$(call say,building build/bin/kubectl $(KUBE_VERSION) (about 2 minutes when nothing is cached))
	@cd tools/kube-apiserver && go build -ldflags "$(KUBE_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/kubectl
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
