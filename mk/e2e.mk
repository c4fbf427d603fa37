##@ A real cluster

# A cluster and logs for each base, on the same nodes.
E2E_DIR := $(PROJECT)/build/e2e$(BASE_SUFFIX)
E2E_NODE_DIR := $(PROJECT)/build/e2e
E2E_ARTIFACTS := $(PROJECT)/build/artifacts$(BASE_SUFFIX)
E2E_CLUSTER ?= kueue-e2e$(subst .,-,$(BASE_SUFFIX))
# The specs share the cluster, and mostly wait.
E2E_PROCS ?= 3
E2E_BUILT_IMAGE := localhost/kind-node:v$(NODE_VERSION)
# What upstream's end-to-end tests run in their pods.
E2E_AGNHOST := registry.k8s.io/e2e-test-images/agnhost:2.57
# Empty: the one that "make e2e-node-image" built, if Docker has it, or else kind's.
E2E_NODE_IMAGE ?=
# A cluster that runs already. It pulls the image: say IMAGE=registry/name:tag.
E2E_KUBECONFIG ?=
# Plain Kueue, which the suite upgrades and goes back to: built here as ours is.
E2E_PLAIN := $(E2E_DIR)/plain
E2E_PLAIN_IMAGE := $(if $(E2E_KUBECONFIG),registry.k8s.io/kueue/kueue,localhost/kueue):$(BASE_VERSION)
# The manifests of the example controllers, with images that the cluster has or
# can pull. Empty: no spec of them.
E2E_EXAMPLES ?= $(if $(E2E_KUBECONFIG),,$(E2E_DIR)/examples)
E2E_EXAMPLE_NAMES := budget capacity
IN_E2E = BIN=$(BIN) DIST=$(abspath $(DIST)) VERSION=$(VERSION) E2E_DIR=$(E2E_DIR) E2E_ARTIFACTS=$(E2E_ARTIFACTS) E2E_CLUSTER=$(E2E_CLUSTER) \
	E2E_BUILT_IMAGE=$(E2E_BUILT_IMAGE) E2E_NODE_IMAGE=$(E2E_NODE_IMAGE) E2E_KUBECONFIG=$(E2E_KUBECONFIG)

.PHONY: need-docker need-debootstrap need-pullable
need-docker:
	@command -v docker >/dev/null || { echo "error: kind needs Docker, which is not installed: install it, or name a cluster that runs: make e2e-cluster E2E_KUBECONFIG=file" >&2; exit 1; }
	@docker info >/dev/null 2>&1 || { echo "error: kind needs Docker, which does not run, or not for you (docker info tells more): start it, or name a cluster that runs: make e2e-cluster E2E_KUBECONFIG=file" >&2; exit 1; }

need-pullable:
	@$(if $(filter localhost/%,$(IMAGE)),echo "error: the cluster of E2E_KUBECONFIG cannot pull $(IMAGE): push it with make image-push IMAGE=registry/name:tag and say the same IMAGE here" >&2; exit 1,:)

need-debootstrap:
	@command -v debootstrap >/dev/null || { echo "error: debootstrap is not installed: apt-get install debootstrap" >&2; exit 1; }
	@test $$(id -u) = 0 || { echo "error: debootstrap works for root only: become root, and run make again" >&2; exit 1; }

.PHONY: e2e-cluster
e2e-cluster: $(if $(E2E_KUBECONFIG),need-pullable,need-docker example-images) image manifests kubectl $(BIN)/kind ## Start a kind cluster with build/dist installed (E2E_NODE_IMAGE, or E2E_KUBECONFIG=file for another cluster).
	@$(IN_E2E) tools/e2e/cluster.sh up

# For this machine's architecture, which is that of kind's nodes.
.PHONY: example-images
example-images: fresh-tree release-tool ## Write images of the example controllers to build/e2e/examples, and their manifests with these images.
	$(call say,building the images of $(E2E_EXAMPLE_NAMES))
	@mkdir -p $(E2E_DIR)/examples
	@cd examples && GOOS=linux go build -ldflags "-s -w" -o $(E2E_DIR)/examples/ $(addprefix ./,$(E2E_EXAMPLE_NAMES))
	@$(RELEASE_TOOL) program-images $(addprefix --program $(E2E_DIR)/examples/,$(E2E_EXAMPLE_NAMES)) --archive $(E2E_DIR)/examples/images.tar
	@for example in $(E2E_EXAMPLE_NAMES); do \
		sed "s|image: $$example:latest|image: localhost/$$example:$(VERSION)|" examples/$$example/manifests.yaml >$(E2E_DIR)/examples/$$example.yaml; \
	done

# The stamps are upstream's: the same image, whatever is committed here.
.PHONY: e2e-plain
e2e-plain: e2e-cluster
	@read -r dir time < <(cd $(BASE_PIN) && go list -m -f '{{.Dir}} {{.Time.Format "2006-01-02T15:04:05Z"}}' $(BASE_MODULE)); \
	$(MAKE) AS_IS=1 $(if $(E2E_KUBECONFIG),,image) manifests TREE=$$dir VERSION=$(BASE_VERSION) COMMIT=unknown BUILD_DATE=$$time ARCHITECTURES=$$(go env GOARCH) \
		IMAGE=$(E2E_PLAIN_IMAGE) GATE=off MANAGERS=$(E2E_DIR)/plain-managers DIST=$(E2E_PLAIN)
	@$(IN_E2E) tools/e2e/cluster.sh load $(E2E_PLAIN)/kueue-$(BASE_VERSION).tar

.PHONY: test-e2e
test-e2e: e2e-plain ## Run the end-to-end suite in that cluster, with what is installed there (E2E_PROCS, GINKGO_ARGS=--label-filter=smoke).
	$(call say,the end-to-end suite)
	@cd $(TREE_DIR) && export E2E_TEST_AGNHOST_IMAGE=$(E2E_AGNHOST) E2E_MANIFESTS=$(abspath $(DIST))/manifests.yaml E2E_PLAIN_MANIFESTS=$(E2E_PLAIN)/manifests.yaml E2E_EXAMPLES=$(E2E_EXAMPLES) ARTIFACTS=$(E2E_ARTIFACTS) && \
	$(IN_E2E) $(PROJECT)/tools/e2e/cluster.sh run \
	go run github.com/onsi/ginkgo/v2/ginkgo run --trimpath --output-interceptor-mode=none -v --procs=$(E2E_PROCS) $(GINKGO_ARGS) ./test/e2e/delayedretry

.PHONY: e2e-cluster-delete
e2e-cluster-delete: need-tools need-docker $(BIN)/kind ## Delete the kind cluster.
	@$(IN_E2E) tools/e2e/cluster.sh down

.PHONY: e2e-node-image
e2e-node-image: need-tools need-docker need-debootstrap $(BIN)/kind ## Build a node image for kind where no registry is in reach: Debian packages and Go modules (Docker, debootstrap, root).
	@tools/kind-node/build.sh $(E2E_BUILT_IMAGE) $(E2E_AGNHOST) $(E2E_NODE_DIR) "$(call kube_ldflags,$(NODE_VERSION))"

$(BIN)/kind: tools/kind-node/go.mod tools/kind-node/go.sum
	$(call say,building build/bin/kind)
	@cd tools/kind-node && go build -o $@ sigs.k8s.io/kind
	@touch $@
