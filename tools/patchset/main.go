// Command patchset keeps a set of patches on an upstream Go module: it makes
// the patched tree, takes the work done there back into patches and overlay
// files, and proves that the two agree. git does the work.
//
// Nothing in it knows which base it serves: a second base is a second series
// file with its patches, and a second directory with a go.mod that pins it.
// "patchset tree --pin bases/v0.15 --series patches-v0.15/series --other-series
// patches/series --tree build/kueue-v0.15" works on it; each side leaves alone
// what the other one's series lists and its patches claim, and an overlay file
// that both claim is shared.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "patchset: error: %v\n", err)
		os.Exit(1)
	}
}

// newCommand returns the command line.
func newCommand() *cobra.Command {
	p := &project{}
	var force bool
	root := &cobra.Command{
		Use:           "patchset",
		Short:         "Keep a set of patches on an upstream Go module",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			p.out = cmd.OutOrStdout()
			return p.absolute()
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.dir, "project", ".", "directory that holds the patches and the overlay")
	flags.StringVar(&p.series, "series", "patches/series", "series file, relative to the project; its patches lie next to it")
	flags.StringSliceVar(&p.otherSeries, "other-series", nil, "series files of other bases, whose patches and overlay files are left alone")
	flags.StringSliceVar(&p.overlayRoots, "overlay-root", []string{
		"apis/kueue/v1beta1", "pkg", "test", "keps/3258-delayed-admission-check-retries",
	}, "folders in which new files may stand")
	flags.StringVar(&p.tree, "tree", "build/kueue", "directory of the patched tree")
	flags.StringVar(&p.module, "module", "sigs.k8s.io/kueue", "Go module that is the base")
	flags.StringVar(&p.pin, "pin", ".", "directory whose go.mod and go.sum pin the base")
	flags.StringVar(&p.baseDir, "base-dir", "", "take the base from this directory and not from a module")
	flags.StringVar(&p.generators, "generators", "tools/generators", "directory of the module that pins the code generators; empty: generate nothing")

	verb := func(use, short string, run func() error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return run() }}
		root.AddCommand(cmd)
		return cmd
	}
	forceFlag := func(cmd *cobra.Command, usage string) { cmd.Flags().BoolVar(&force, "force", false, usage) }

	forceFlag(verb("tree", "Make the patched tree, or bring it up to date", func() error { return p.makeTree(force) }),
		"put aside work in the tree that is not exported")
	forceFlag(verb("export", "Take the commits of the tree back into patches and overlay", func() error { return p.export(force) }),
		"undo what was done to the project's files after the tree was made")
	verb("verify", "Prove that patches, overlay and tree agree", func() error { return p.verify() })
	verb("verify-compile", "Prove that every patch compiles on those before it", func() error { return p.verifyCompile() })
	verb("generate", "Make the generated code anew in the tree", func() error { return p.generate() })

	var outDir, author string
	pr := verb("pr", "Write a plain \"git am\" series for upstream", func() error { return p.pullRequest(outDir, author) })
	pr.Flags().StringVar(&outDir, "out", "build/pr", "directory for the series, emptied first")
	pr.Flags().StringVar(&author, "author", fixedName+" <"+fixedEmail+">", "author of the commits")

	var unit bool
	touched := verb("touched", "Print the Go packages of the tree that the patches change or add to", func() error { return p.printTouched(unit) })
	touched.Flags().BoolVar(&unit, "unit", false, "leave out the suites below test/, which need a control plane")
	return root
}

// absolute makes the directories independent of where commands run.
func (p *project) absolute() error {
	for _, dir := range []*string{&p.dir, &p.tree, &p.pin, &p.generators} {
		if *dir == "" {
			continue
		}
		full, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		*dir = full
	}
	return nil
}
