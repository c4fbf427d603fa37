/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

	http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Command patchset keeps a set of patches on an upstream Go module: it makes
// the patched tree, takes the work done there back into patches and overlay
// files, and proves that the two agree. git does the work.
//
// Nothing in it knows which base it serves: bases/<name>/base.yaml says that, and
// --base chooses one. Each base leaves alone what the series of another one lists
// and its patches claim; an overlay file that both claim is shared.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// defaultBase is the base that is meant if none is named.
const defaultBase = "v0.19"

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "patchset: error: %v\n", err)
		os.Exit(1)
	}
}

// newCommand returns the command line.
func newCommand() *cobra.Command {
	p := &project{}
	var baseName string
	var force bool
	var verify, size *cobra.Command // of all bases, if none is named
	root := &cobra.Command{
		Use:           "patchset",
		Short:         "Keep a set of patches on an upstream Go module",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			p.out = cmd.OutOrStdout()
			if (cmd == verify || cmd == size) && !cmd.Flags().Changed("base") {
				return nil
			}
			return p.open(baseName)
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.dir, "project", ".", "directory that holds the patches and the overlay")
	flags.StringVar(&baseName, "base", defaultBase, "base of the patches: the name of a folder in bases/")
	flags.StringVar(&p.tree, "tree", "", "directory of the patched tree (default: what the base says)")
	flags.StringVar(&p.sourceDir, "source-dir", "", "take the base's source from this directory and not from its module (to verify all bases: from the folder there with the name of the base)")
	flags.StringVar(&p.upstream, "upstream", "", "upstream's git, for a base that is a commit of it")

	verb := func(use, short string, run func() error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return run() }}
		root.AddCommand(cmd)
		return cmd
	}
	forceFlag := func(cmd *cobra.Command, usage string) { cmd.Flags().BoolVar(&force, "force", false, usage) }

	forceFlag(verb("tree", "Make the patched tree, or bring it up to date", func() error { return p.makeTree(force) }),
		"put aside work in the tree that is not exported")
	export := verb("export", "Take the commits of the tree back into patches and overlay", func() error { return p.export(force) })
	forceFlag(export, "undo what was done to the project's files after the tree was made")
	export.Flags().StringSliceVar(&p.own, "own", nil, "file of the tree that is not to be shared with other bases any more")
	verify = verb("verify", "Prove that patches, overlay and tree agree, on all bases or on the one that is named", func() error {
		if p.base == nil {
			return p.verifyAll()
		}
		return p.verify()
	})
	var quick bool
	verb("verify-commits", "Prove that each commit compiles and passes the unit tests of what it touches", func() error { return p.verifyCommits(quick) }).
		Flags().BoolVar(&quick, "quick", false, "only check the types of all packages, tests included")
	var only string
	verb("verify-fixes", "Prove that each fix of the base stands alone: its tests fail without it, and pass with it", func() error { return p.verifyFixes(only) }).
		Flags().StringVar(&only, "fix", "", "only the fix with this name")
	verb("show-defects", "Show defects of the plain base that no patch fixes: tests that fail on it", func() error { return p.showDefects(only) }).
		Flags().StringVar(&only, "name", "", "only the defect with this name")
	size = verb("size", "Count the lines of the parts of the patch set, and fail over a budget, on all bases or on the one that is named", func() error { return p.size() })
	var check bool
	var page string
	upstream := verb("upstream-page", "Write the table of the patches into a page, from their messages", func() error { return p.upstreamPage(page, check) })
	upstream.Flags().StringVar(&page, "page", "docs/upstream.md", "the page")
	upstream.Flags().BoolVar(&check, "check", false, "only say whether the page has the table")
	verb("generate", "Make the generated code anew in the tree", func() error { return p.generate() })

	var version, commit string
	newBase := &cobra.Command{
		Use:   "new-base NAME",
		Short: "Write the files of a new base, like that of --base",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return p.newBase(args[0], version, commit) },
	}
	newBase.Flags().StringVar(&version, "version", "", "version of the base's module, such as v1.2.3")
	newBase.Flags().StringVar(&commit, "commit", "", "commit of upstream's git, for a version that no module proxy has (needs --upstream)")
	_ = newBase.MarkFlagRequired("version") // there is such a flag
	root.AddCommand(newBase)
	var from string
	verb("port", "Begin the port of another base's patches to a new one, and say what is left to do", func() error { return p.port(from) }).
		Flags().StringVar(&from, "from", "", "base with the patches (default: the one that shares its overlay)")

	var ref, rebased string
	var rebase *cobra.Command
	rebase = verb("rebase", "Put the patches onto another version of upstream, in a tree of its own, and say what came of it", func() error {
		return p.rebase(ref, rebased, !rebase.Flags().Changed("base"))
	})
	rebase.Flags().StringVar(&ref, "ref", "", "tag or commit of upstream's git")
	rebase.Flags().StringVar(&rebased, "out", "", "the tree, which must not exist (default: build/rebase and the name of the version)")
	_ = rebase.MarkFlagRequired("ref") // there is such a flag

	verb("beside", "Write what of the project uses the tree without being a part of it, for this base", func() error { return p.writeBeside() })
	verb("dep-crds", "Copy the CRDs of other projects, which upstream's suites read, to the tree", func() error { return p.copyDependencyCRDs() })

	var outDir, author string
	var carried bool
	var fix string
	pr := verb("pr", "Write a plain \"git am\" series for upstream", func() error { return p.pullRequest(outDir, author, carried, fix) })
	pr.Flags().StringVar(&outDir, "out", "", "directory for the series, emptied first (default: build/pr, and what the base has for a suffix)")
	pr.Flags().StringVar(&author, "author", defaultAuthor, "author of the commits")
	pr.Flags().StringVar(&fix, "fix", "", "only write the fix of the base with this name, as it stands alone")
	pr.Flags().BoolVar(&carried, "carried", false, "also write the patches that upstream is not asked to take")

	var unit bool
	touched := verb("touched", "Print the Go packages of the tree that the patches change or add to", func() error { return p.printTouched(unit) })
	touched.Flags().BoolVar(&unit, "unit", false, "leave out the suites below test/, which need a control plane")

	var format string
	base := verb("base", "Print what the Makefile needs to know about the base", func() error { return p.printBase(format) })
	base.Flags().StringVar(&format, "format", "make", "the only one: variables of make")
	return root
}

// open reads the base's file, and makes the directories independent of where
// commands run.
func (p *project) open(baseName string) (err error) {
	if p.dir, err = filepath.Abs(p.dir); err != nil {
		return err
	}
	if p.base, err = openBase(p.dir, baseName); err != nil {
		return err
	}
	if p.tree == "" {
		p.tree = filepath.Join(p.dir, filepath.FromSlash(p.base.Tree))
	}
	if p.sourceDir != "" {
		if p.sourceDir, err = filepath.Abs(p.sourceDir); err != nil {
			return err
		}
	}
	if p.upstream != "" {
		if p.upstream, err = filepath.Abs(p.upstream); err != nil {
			return err
		}
	}
	p.tree, err = filepath.Abs(p.tree)
	return err
}
