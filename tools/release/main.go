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

// Command release makes what is shipped of a patched tree: the image, the
// manifests and the chart, and what goes with them. It also checks them.
//
// Everything it writes is reproducible: times are those of the commit, and
// entries stand in a fixed order.
package main

import (
	"cmp"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "release: error: %v\n", err)
		os.Exit(1)
	}
}

// newCommand returns the command line.
func newCommand() *cobra.Command {
	r := &release{}
	root := &cobra.Command{
		Use:           "release",
		Short:         "Make and check what is shipped of a patched Kueue",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			r.out = cmd.OutOrStdout()
			return r.complete()
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&r.version, "version", "", "version, with a leading v; also the tag of the image where --image has none")
	flags.StringVar(&r.baseVersion, "base-version", "", "version of Kueue that the tree is made from")
	flags.StringVar(&r.commit, "commit", "", "commit of this repository that is released")
	flags.StringVar(&r.createdFlag, "created", "", "time of everything that is written (RFC 3339): that of the commit")
	flags.StringVar(&r.imageFlag, "image", "", "reference of the image, such as registry/name:tag")
	flags.StringVar(&r.gateFlag, "gate", "on", "the feature gate in manifests and chart: on or off")
	flags.StringVar(&r.tree, "tree", "build/kueue", "directory of the patched tree")
	flags.StringVar(&r.base, "base", "", "directory of plain Kueue, for comparison")
	flags.StringVar(&r.managers, "managers", "build/managers", "directory with the managers, as <os>-<architecture>/manager, and kubectl-kueue beside them")
	flags.StringSliceVar(&r.architectures, "arch", []string{"amd64", "arm64"}, "architectures of the image; Docker's classic image store tags the first one with the image's own tag")
	flags.StringVar(&r.dist, "dist", "build/dist", "directory for what is shipped")

	verb := func(use, short string, run func(cmd *cobra.Command) error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) }}
		root.AddCommand(cmd)
		return cmd
	}
	verb("image", "Write the image's archive and its SBOM", func(*cobra.Command) error { return r.makeImage() })
	verb("push", "Push the image that \"image\" made to a registry", func(cmd *cobra.Command) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return r.push(ctx)
	})
	var programs []string
	var archive string
	images := verb("program-images", "Write an archive with an image for each of some programs", func(*cobra.Command) error { return r.makeProgramImages(programs, archive) })
	images.Flags().StringSliceVar(&programs, "program", nil, "path of a program; each has the image localhost/<its name>")
	images.Flags().StringVar(&archive, "archive", "", "where to write")
	verb("plugins", "Write kueuectl, the plugin of kubectl, and its SBOM", func(*cobra.Command) error { return r.makePlugins() })
	verb("manifests", "Write manifests.yaml from upstream's kustomization", func(*cobra.Command) error { return r.makeManifests() })
	verb("chart", "Package upstream's Helm chart", func(*cobra.Command) error { return r.makeChart() })

	var from string
	patches := verb("patches", "Pack a directory of patches", func(*cobra.Command) error { return r.packPatches(from) })
	patches.Flags().StringVar(&from, "from", "build/pr", "directory with the patches")

	verb("checksums", "Write SHA256SUMS of what is shipped", func(*cobra.Command) error { return r.writeChecksums() })

	var govulncheck string
	check := verb("check", "Compare what is shipped with plain Kueue, and the version stamps with each other", func(cmd *cobra.Command) error {
		return r.check(cmd.Context(), govulncheck)
	})
	check.Flags().StringVar(&govulncheck, "govulncheck", "", "govulncheck's binary; empty: leave it out")
	return root
}

// say prints a line of progress.
func (r *release) say(format string, args ...any) {
	fmt.Fprintf(r.out, "==> %s\n", fmt.Sprintf(format, args...))
}

// imageOrDefault is the reference that the image has where none is asked for.
// Nobody can register "localhost", so that it is never pulled from elsewhere.
func imageOrDefault(image, version string) string {
	return cmp.Or(image, "localhost/kueue:"+version)
}
