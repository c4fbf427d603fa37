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
BASE ?= v0.14
BASE_MK := build/$(BASE).mk
TREE_DIR = $(abspath $(TREE))
BIN := $(PROJECT)/build/bin
# In the demo, the cluster, the manifests and the chart: on or off.
GATE ?= on
GATE_VALUE = $(patsubst on,true,$(patsubst off,false,$(GATE)))

# The same flags everywhere, so that every build and test shares Go's cache.
export GOFLAGS := -trimpath -buildvcs=false
export GOWORK := off
# Without cgo, but for the race detector: nothing needs a C compiler.
export CGO_ENABLED := 0

say = @echo "==> $(1)"
comma := ,

.PHONY: help
help: ## Show this list.
	@echo "Verbs (variables: FORCE=1; AS_IS=1 to use the tree as it is; TREE=dir for another one, but in lab/, which tries build/kueue):"
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
	@go run ./tools/patchset --base $(BASE) base >$@.new && mv $@.new $@

include mk/tree.mk mk/build.mk mk/test.mk mk/lab.mk mk/bench.mk mk/release.mk mk/e2e.mk
