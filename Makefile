# Thin verbs: "make help" lists them. They stand in mk/, by theme; the work is done
# by programs in tools/ and lab/, and by go.

SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# "make -j" would have verbs change the tree at the same time. They use all cores
# themselves, and a few parts run beside each other.
ifeq ($(filter simulate-%,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

PROJECT := $(CURDIR)
# What the patches stand on: a folder in bases/. What depends on it, base.yaml says.
BASE ?= v0.19
BASES := $(notdir $(wildcard bases/*))
ifeq ($(filter $(BASE),$(BASES)),)
$(error BASE=$(BASE): there is no such base; take one of: $(BASES))
endif
# What base.yaml of a base has in a line of its own, for what is asked of another base.
base_says = $(shell sed -n 's/^$(2): //p' bases/$(1)/base.yaml)
# lab/ is compiled against this one's tree. It asks Kueue through the API alone, and so
# tries the Kueue of all bases.
LAB_BASE := v0.19
# Those that are releases: the module proxy has them. Another one is a commit of upstream.
RELEASES := $(foreach base,$(BASES),$(if $(call base_says,$(base),pin),$(base)))
LAB_TREE := $(call base_says,$(LAB_BASE),tree)
BASE_MK := build/$(BASE).mk
TREE_DIR = $(abspath $(TREE))
# Programs that are the same for all bases. $(BASE_BIN) has those of the base, and
# links to the others.
BIN := $(PROJECT)/build/bin
# In the demo, the cluster, the manifests and the chart: on or off.
GATE ?= on
ifeq ($(filter on off,$(GATE)),)
$(error GATE=$(GATE): say on or off)
endif
GATE_VALUE = $(patsubst on,true,$(patsubst off,false,$(GATE)))

# The same flags everywhere, so that every build and test shares Go's cache.
# "make vet" vets. "go test" would once more, with other checks, and all dependencies.
export GOFLAGS := -trimpath -buildvcs=false -vet=off
export GOWORK := off
# Without cgo, but for the race detector: nothing needs a C compiler.
export CGO_ENABLED := 0
# A busy machine takes longer to start a control plane than envtest waits.
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT ?= 2m
export KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT ?= 2m

say = @echo "==> $(1)"
comma := ,

.PHONY: help
help: ## Show this list.
	@echo "Verbs. Variables:"
	@echo "  BASE=name          what the patches stand on: $(subst $() ,$(comma) ,$(sort $(BASES))) ($(BASE) if none is named); what is made of"
	@echo "                     another one than $(LAB_BASE) has its name: build/kueue-v0.14, build/bin/v0.14, build/demo-v0.14"
	@echo "  FORCE=1            put work aside that is not exported"
	@echo "  AS_IS=1            use the tree as it is"
	@echo "  TREE=dir           use another tree"
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: need-tools
need-tools:
	@for tool in go git; do command -v $$tool >/dev/null || { echo "error: $$tool is not installed, or not in PATH: install it (go 1.26 or later, git 2.31 or later) and run make again" >&2; exit 1; }; done

# TREE, versions, what is skipped with the gate on, suites. Not for help and clean,
# which need no Go.
ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),help)),)
include $(BASE_MK)
endif

$(BASE_MK): bases/$(BASE)/base.yaml go.mod tools/patchset/base.go tools/patchset/makevars.go | need-tools
	@mkdir -p $(@D)
	@go run ./tools/patchset --base $(BASE) base >$@.$$$$ && mv $@.$$$$ $@ # two makes may do so at the same time

include mk/tree.mk mk/build.mk mk/test.mk mk/lab.mk mk/bench.mk mk/release.mk mk/e2e.mk
