##@ The patch set

# A base that is a commit of upstream has its source in upstream's git: UPSTREAM=directory.
PATCHSET := go run ./tools/patchset --base $(BASE) --tree $(TREE) $(if $(UPSTREAM),--upstream "$(UPSTREAM)")
FORCE_FLAG = $(if $(FORCE),--force)

.PHONY: tree
tree: need-tools ## Make the patched tree in build/kueue, a git repository with a commit per patch.
	@$(PATCHSET) tree $(FORCE_FLAG)

.PHONY: export
export: need-tools ## Take the commits of build/kueue back into patches/ and the overlay (OWN=file: this base has that file for itself).
	@$(PATCHSET) export $(FORCE_FLAG) $(addprefix --own ,$(OWN))

.PHONY: generate
generate: need-tools ## Make the generated code anew in build/kueue, while working on the API there.
	@$(PATCHSET) generate

.PHONY: verify
verify: need-tools ## Prove that patches, overlay and generated code agree: apply, export, compare (all bases; BASE=v0.14: that one).
	@$(if $(filter file,$(origin BASE)),go run ./tools/patchset,$(PATCHSET)) verify

.PHONY: verify-commits
verify-commits: need-tools ## Prove that each commit compiles and passes the unit tests of what it touches (long; QUICK=1: only check the types).
	@$(PATCHSET) verify-commits $(if $(QUICK),--quick)

.PHONY: upstream-page
upstream-page: need-tools ## Write the table of the patches into docs/upstream.md, from their messages.
	@$(PATCHSET) upstream-page

.PHONY: size
size: need-tools ## Count the lines of the parts of the patch set, and fail over a budget (all bases; BASE=v0.14: that one).
	@$(if $(filter file,$(origin BASE)),go run ./tools/patchset,$(PATCHSET)) size

.PHONY: port
port: need-tools ## Begin the port of a base's patches to a new one, and say what is left (BASE=new FROM=v0.19).
	@$(PATCHSET) port $(if $(FROM),--from $(FROM))

.PHONY: rebase
rebase: need-tools ## Put the patches onto another tag or commit of upstream, in a tree of its own, and say what came of it (UPSTREAM=../kueue REF=v0.19.7; BASE; OUT=directory).
	@go run ./tools/patchset $(if $(filter file,$(origin BASE)),,--base $(BASE)) --upstream "$(UPSTREAM)" rebase --ref "$(REF)" $(if $(OUT),--out "$(OUT)")

.PHONY: pr
pr: need-tools ## Write build/pr/*.patch (build/pr-v0.14 for that base), a "git am" series for upstream's tag, and the texts of the pull requests (AUTHOR="Name <mail>"; FIX=name: build/pr-fix/name, that fix alone).
	@$(PATCHSET) pr $(if $(AUTHOR),--author "$(AUTHOR)") $(if $(FIX),--fix "$(FIX)")

.PHONY: verify-fixes
verify-fixes: need-tools ## Prove that each fix of the base stands alone: its tests fail without it, and pass with it (long; FIX=name).
	@$(PATCHSET) verify-fixes $(if $(FIX),--fix "$(FIX)")

.PHONY: show-defect
show-defect: need-tools ## Show a defect of the plain base that no patch fixes, by a test that fails on it (NAME=name; without it all, long).
	@$(PATCHSET) show-defects $(if $(NAME),--name "$(NAME)")

# What builds or tests the tree brings it up to date first, unless AS_IS=1.
.PHONY: fresh-tree
fresh-tree: $(if $(AS_IS),need-tools,tree)
	@:

# And that of lab/, if it is another one.
.PHONY: lab-tree
lab-tree: fresh-tree
	@$(if $(filter $(LAB_BASE),$(BASE)),,$(MAKE) fresh-tree BASE=$(LAB_BASE) TREE=$(LAB_TREE))
