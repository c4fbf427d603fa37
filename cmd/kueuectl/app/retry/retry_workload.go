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
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	clientretry "k8s.io/client-go/util/retry"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/client-go/clientset/versioned"
	"sigs.k8s.io/kueue/client-go/clientset/versioned/scheme"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/clientgetter"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/completion"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/dryrun"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/wait"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// fieldManager is who sets the delays, as the workload's managed fields have it.
const fieldManager = "kueuectl"

var (
	wlLong = templates.LongDesc(`
		Ends the wait of the given Workload for the retry of its admission checks now.

		The delays that the checks in state Retry ask for are set to 0
		(.status.admissionChecks[*].requeueAfterSeconds). Kueue then requeues the Workload
		itself, and its checks are asked again as soon as it has quota. A check that
		asks for a delay once more has it wait again.

		A backoff of WaitForPodsReady is not ended: a Workload that has one as well waits
		until it is over.

		This needs the feature gate ACRequeueAfter in Kueue, and the permission to patch
		workloads/status, which Kueue's ClusterRoles do not give to batch users and admins.
	`)
	wlExample = templates.Examples(`
		# End the wait of the workload for its admission checks
		kueuectl retry workload my-workload

		# Only show what would be done
		kueuectl retry workload my-workload --dry-run=server
	`)
)

type WorkloadOptions struct {
	PrintFlags *genericclioptions.PrintFlags

	Clock          clock.PassiveClock
	DryRunStrategy dryrun.Strategy
	Name           string
	Namespace      string

	ClientSet versioned.Interface

	PrintObj printers.ResourcePrinterFunc

	genericiooptions.IOStreams
}

func NewWorkloadOptions(streams genericiooptions.IOStreams, clock clock.PassiveClock) *WorkloadOptions {
	return &WorkloadOptions{
		PrintFlags: genericclioptions.NewPrintFlags("retried").WithTypeSetter(scheme.Scheme),
		Clock:      clock,
		IOStreams:  streams,
	}
}

func NewWorkloadCmd(clientGetter clientgetter.ClientGetter, streams genericiooptions.IOStreams, clock clock.PassiveClock) *cobra.Command {
	o := NewWorkloadOptions(streams, clock)

	cmd := &cobra.Command{
		Use: "workload NAME [--namespace NAMESPACE] [--dry-run STRATEGY]",
		// To do not add "[flags]" suffix on the end of usage line
		DisableFlagsInUseLine: true,
		Aliases:               wait.WorkloadAliases,
		Short:                 "End the wait of the Workload for its admission checks",
		Long:                  wlLong,
		Example:               wlExample,
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgsFunction:     completion.WaitingWorkloadNameFunc(clientGetter),
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SilenceUsage = true
			err := o.Complete(clientGetter, cmd, args)
			if err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}

	o.PrintFlags.AddFlags(cmd)

	return cmd
}

// Complete completes all the required options
func (o *WorkloadOptions) Complete(clientGetter clientgetter.ClientGetter, cmd *cobra.Command, args []string) error {
	o.Name = args[0]

	var err error
	o.Namespace, _, err = clientGetter.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}

	o.ClientSet, err = clientGetter.KueueClientSet()
	if err != nil {
		return err
	}

	o.DryRunStrategy, err = dryrun.GetStrategy(cmd)
	if err != nil {
		return err
	}

	err = dryrun.PrintFlagsWithStrategy(o.PrintFlags, o.DryRunStrategy)
	if err != nil {
		return err
	}

	printer, err := o.PrintFlags.ToPrinter()
	if err != nil {
		return err
	}

	o.PrintObj = printer.PrintObj

	return nil
}

// Run sets the delays of the workload's checks to 0. If somebody writes the
// workload in between, it looks again whether there is something to end.
func (o *WorkloadOptions) Run(ctx context.Context) error {
	var wl *kueue.Workload
	err := clientretry.RetryOnConflict(clientretry.DefaultRetry, func() error {
		var err error
		wl, err = o.endWait(ctx)
		return err
	})
	if err != nil {
		return err
	}

	if backoff := o.describeBackoff(wl); backoff != "" {
		fmt.Fprintf(o.ErrOut, "Workload %q is not requeued yet: %s\n", o.Name, backoff)
	}
	return o.PrintObj(wl, o.Out)
}

// endWait reads the workload, and returns it with the delays that it has ended.
func (o *WorkloadOptions) endWait(ctx context.Context) (*kueue.Workload, error) {
	workloads := wait.Workloads(o.ClientSet, o.Namespace)
	wl, err := workloads.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}

	if _, waits := wait.Of(wl); !waits {
		return nil, fmt.Errorf("workload %q does not wait for its admission checks: %s", o.Name, o.describeState(wl))
	}

	operations := endDelays(wl)
	if o.DryRunStrategy == dryrun.Client {
		return wl, nil
	}
	data, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	opts := metav1.PatchOptions{FieldManager: fieldManager}
	if o.DryRunStrategy == dryrun.Server {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	return workloads.Patch(ctx, o.Name, types.JSONPatchType, data, opts, "status")
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// endDelays sets the delays of the checks in state Retry to 0, and returns the
// operations that do so in the object of this resource version. A merge patch would
// write the whole list, as this client knows it.
func endDelays(wl *kueue.Workload) []operation {
	operations := []operation{{Op: "replace", Path: "/metadata/resourceVersion", Value: wl.ResourceVersion}}
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		if check.State == kueue.CheckStateRetry {
			check.RequeueAfterSeconds = ptr.To[int32](0)
			operations = append(operations, operation{Op: "add", Path: fmt.Sprintf("/status/admissionChecks/%d/requeueAfterSeconds", i), Value: 0})
		}
	}
	return operations
}

// describeBackoff returns what else the workload waits for, or an empty string.
func (o *WorkloadOptions) describeBackoff(wl *kueue.Workload) string {
	if _, evicted := workloadevict.IsEvictedByPodsReadyTimeout(wl); evicted && requeue.RequeueAt(wl).After(o.Clock.Now()) {
		return fmt.Sprintf("it waits until %s for a backoff of WaitForPodsReady", wait.Time(requeue.RequeueAt(wl)))
	}
	return ""
}

// describeState tells where a workload stands that does not wait for its checks.
func (o *WorkloadOptions) describeState(wl *kueue.Workload) string {
	checks := workload.RetryChecks(wl)
	switch {
	case workloadfinish.IsFinished(wl):
		return "it is finished"
	case !workload.IsActive(wl), apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget):
		return "it is deactivated"
	case len(checks) > 0:
		return fmt.Sprintf("admission check(s) %s asked for a retry, but Kueue has not recorded a wait (is the feature gate ACRequeueAfter on?)", strings.Join(wait.Names(checks), ", "))
	case o.describeBackoff(wl) != "":
		return o.describeBackoff(wl)
	case workload.HasQuotaReservation(wl):
		return "it has quota reserved, and no check is in state Retry"
	case requeue.IsWaitingForRetry(wl):
		return "no check is in state Retry any more, and it is about to be requeued"
	default:
		return "it is pending, and no check is in state Retry"
	}
}
