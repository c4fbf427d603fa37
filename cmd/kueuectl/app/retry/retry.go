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

package retry

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/utils/clock"

	"sigs.k8s.io/kueue/cmd/kueuectl/app/clientgetter"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/flags"
)

var (
	retryExample = templates.Examples(`
		# End the wait of the workload for its admission checks
		kueuectl retry workload my-workload
	`)
)

func NewRetryCmd(clientGetter clientgetter.ClientGetter, streams genericiooptions.IOStreams, clock clock.PassiveClock) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "retry",
		Short:   "Retry the resource now",
		Example: retryExample,
	}

	flags.AddDryRunFlag(cmd)

	cmd.AddCommand(NewWorkloadCmd(clientGetter, streams, clock))

	return cmd
}
