##@ Shipping

# RELEASE is in base.yaml. Only a commit that has the tag $(RELEASE_VERSION) has
# that version; another one has the commit behind it. After a dot, because image
# tags and labels take no "+".
RELEASE_VERSION := $(BASE_VERSION)-acrequeueafter.$(RELEASE)
COMMIT := $(shell git rev-parse --verify --quiet HEAD || echo unknown)
DIRTY := $(shell git diff --quiet HEAD -- 2>/dev/null || test $(COMMIT) = unknown || echo .dirty)
TAGGED := $(if $(DIRTY),,$(shell git tag --points-at HEAD --list $(RELEASE_VERSION) 2>/dev/null))
VERSION := $(RELEASE_VERSION)$(if $(TAGGED),,.g$(shell git rev-parse --verify --quiet --short=12 HEAD || echo unknown)$(DIRTY))
# The date of the commit, not of the build: the same commit gives the same bytes.
BUILD_DATE := $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
VERSION_PKG := $(BASE_MODULE)/pkg/version
MANAGER_LDFLAGS := -s -w -X $(VERSION_PKG).GitVersion=$(VERSION) -X $(VERSION_PKG).GitCommit=$(COMMIT) -X $(VERSION_PKG).BuildDate=$(BUILD_DATE)

# The first architecture is the one of Docker's classic image store.
ARCHITECTURES ?= amd64 arm64
# The image's reference: nothing is pulled from "localhost".
IMAGE ?= localhost/kueue:$(VERSION)
MANAGERS := build/managers$(BASE_SUFFIX)
DIST := $(BASE_DIST)
RELEASE_TOOL = $(BIN)/release --version $(VERSION) --base-version $(BASE_VERSION) --commit $(COMMIT) --created $(BUILD_DATE) \
	--image $(IMAGE) --gate $(GATE) --arch $(subst $() ,$(comma),$(strip $(ARCHITECTURES))) --tree $(TREE_DIR) --managers $(MANAGERS) --dist $(DIST)

.PHONY: release-tool
release-tool: need-tools
	@go build -o $(BIN)/ ./tools/release

.PHONY: image
image: fresh-tree release-tool ## Write the image to build/dist, for docker, containerd and kind, and its SBOM (IMAGE, ARCHITECTURES="amd64 arm64").
	$(call say,building the manager $(VERSION) for $(ARCHITECTURES) (minutes for each when nothing is cached))
	@cd $(TREE_DIR) && for architecture in $(ARCHITECTURES); do \
		GOOS=linux GOARCH=$$architecture go build -ldflags "$(MANAGER_LDFLAGS)" -o $(abspath $(MANAGERS))/linux-$$architecture/manager ./cmd/kueue; \
	done
	@$(RELEASE_TOOL) image

.PHONY: image-push need-registry
need-registry:
	@$(if $(filter localhost/%,$(IMAGE)),echo "error: say where to: make image-push IMAGE=registry/name:tag" >&2; exit 1,:)

image-push: need-registry image ## Push the image, with docker's credentials (IMAGE=registry/name:tag).
	@$(RELEASE_TOOL) push

.PHONY: plugins
plugins: fresh-tree release-tool ## Write kueuectl to build/dist, as the plugin of kubectl, and its SBOM (ARCHITECTURES="amd64 arm64").
	$(call say,building kueuectl $(VERSION) for $(ARCHITECTURES) (minutes for each when nothing is cached))
	@cd $(TREE_DIR) && for architecture in $(ARCHITECTURES); do \
		GOOS=linux GOARCH=$$architecture go build -ldflags "$(MANAGER_LDFLAGS)" -o $(abspath $(MANAGERS))/linux-$$architecture/kubectl-kueue ./cmd/kueuectl; \
	done
	@$(RELEASE_TOOL) plugins

.PHONY: manifests
manifests: fresh-tree release-tool ## Write build/dist/manifests.yaml for "kubectl apply --server-side" (IMAGE, GATE=off).
	@$(RELEASE_TOOL) manifests

.PHONY: chart
chart: fresh-tree release-tool ## Package the Helm chart to build/dist (IMAGE, GATE=off).
	@$(RELEASE_TOOL) chart

.PHONY: dist
dist: ## Write all that a release has to build/dist (build/dist-v0.14 for that base), emptied before, and check it (IMAGE, GATE).
	@rm -rf $(DIST)
	@$(MAKE) image
	@$(MAKE) AS_IS=1 plugins manifests chart pr
	@$(RELEASE_TOOL) patches --from $(BASE_PR)
	@cp CHANGELOG.md $(DIST)/
	@$(RELEASE_TOOL) checksums
	@$(MAKE) AS_IS=1 check-dist

# govulncheck, and the tests that install what is in build/dist.
.PHONY: check-dist
check-dist: fresh-tree release-tool envtest kubectl $(BIN)/helm $(BIN)/govulncheck ## Check build/dist: versions, the difference to plain Kueue, vulnerabilities, that it installs.
	@$(RELEASE_TOOL) check --base "$$(cd $(BASE_PIN) && go list -m -f '{{.Dir}}' $(BASE_MODULE))" --govulncheck $(BIN)/govulncheck
	$(call say,installing the manifests and the chart on an API server$(comma) from plain Kueue and back)
	@PLAIN="$$(cd $(BASE_PIN) && go list -m -f '{{.Dir}}' $(BASE_MODULE))" PATCHED_TREE=$(TREE_DIR) DIST=$(abspath $(DIST)) VERSION=$(VERSION) IMAGE=$(IMAGE) GATE=$(GATE) KUBEBUILDER_ASSETS=$(BIN) go test -count=1 -run 'TestInstall|TestMigration' ./tools/release

# Of the module of the release tool, which has most of it compiled already.
$(BIN)/helm: go.mod go.sum
	$(call say,building build/bin/helm (about a minute when nothing is cached))
	@go build -ldflags "-s -w" -o $@ helm.sh/helm/v3/cmd/helm
	@touch $@

$(BIN)/govulncheck: tools/govulncheck/go.mod tools/govulncheck/go.sum
	$(call say,building build/bin/govulncheck)
	@cd tools/govulncheck && go build -o $@ golang.org/x/vuln/cmd/govulncheck
	@touch $@
