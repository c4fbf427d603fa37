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

package completion

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/kueue/cmd/kueuectl/app/clientgetter"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/wait"
)

// WaitingWorkloadNameFunc completes the name of a workload that waits for the
// retry of its admission checks.
func WaitingWorkloadNameFunc(clientGetter clientgetter.ClientGetter) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}

		clientSet, err := clientGetter.KueueClientSet()
		if err != nil {
			return []string{}, cobra.ShellCompDirectiveError
		}

		namespace, _, err := clientGetter.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return []string{}, cobra.ShellCompDirectiveError
		}

		list, err := wait.Workloads(clientSet, namespace).List(cmd.Context(), metav1.ListOptions{Limit: completionLimit})
		if err != nil {
			return []string{}, cobra.ShellCompDirectiveError
		}

		var validArgs []string
		for i := range list.Items {
			if _, waits := wait.Of(&list.Items[i]); waits {
				validArgs = append(validArgs, list.Items[i].Name)
			}
		}

		return validArgs, cobra.ShellCompDirectiveNoFileComp
	}
}
