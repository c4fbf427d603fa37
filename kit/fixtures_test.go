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

package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// workloadWrapper builds a workload for a test.
type workloadWrapper struct{ kueue.Workload }

func makeWorkload(name string) *workloadWrapper {
	return &workloadWrapper{kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid"}}}
}

func (w *workloadWrapper) obj() *kueue.Workload {
	return w.DeepCopy()
}

func (w *workloadWrapper) checks(states ...kueue.AdmissionCheckState) *workloadWrapper {
	w.Status.AdmissionChecks = states
	return w
}

func (w *workloadWrapper) condition(condition metav1.Condition) *workloadWrapper {
	apimeta.SetStatusCondition(&w.Status.Conditions, condition)
	return w
}

func (w *workloadWrapper) is(conditionType string) *workloadWrapper {
	return w.condition(metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: "ByTest", LastTransitionTime: testBefore})
}

func (w *workloadWrapper) reserved() *workloadWrapper { return w.is(kueue.WorkloadQuotaReserved) }
func (w *workloadWrapper) admitted() *workloadWrapper { return w.is(kueue.WorkloadAdmitted) }
func (w *workloadWrapper) evicted() *workloadWrapper  { return w.is(kueue.WorkloadEvicted) }
func (w *workloadWrapper) finished() *workloadWrapper { return w.is(kueue.WorkloadFinished) }

func (w *workloadWrapper) inactive() *workloadWrapper {
	w.Spec.Active = ptr.To(false)
	return w
}

func (w *workloadWrapper) deleted(at time.Time) *workloadWrapper {
	w.DeletionTimestamp = ptr.To(metav1.NewTime(at))
	return w
}

// checkWrapper builds an admission check for a test.
type checkWrapper struct{ kueue.AdmissionCheck }

func makeCheck(name string) *checkWrapper {
	return &checkWrapper{kueue.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec:       kueue.AdmissionCheckSpec{ControllerName: controllerName},
	}}
}

func (c *checkWrapper) obj() *kueue.AdmissionCheck {
	return c.DeepCopy()
}

func (c *checkWrapper) of(controllerName string) *checkWrapper {
	c.Spec.ControllerName = controllerName
	return c
}

func (c *checkWrapper) generation(generation int64) *checkWrapper {
	c.Generation = generation
	return c
}

func (c *checkWrapper) condition(condition metav1.Condition) *checkWrapper {
	c.Status.Conditions = []metav1.Condition{condition}
	return c
}

func (c *checkWrapper) active(status metav1.ConditionStatus) *checkWrapper {
	return c.condition(metav1.Condition{Type: kueue.AdmissionCheckActive, Status: status, Reason: "ByTest", LastTransitionTime: testBefore})
}

// newFakeClient returns a client that counts the writes by field manager. It does
// with an apply what the API server does with the lists that the kit applies to.
func newFakeClient(objs ...client.Object) (client.Client, map[string]int) {
	scheme := runtime.NewScheme()
	if err := kueue.AddToScheme(scheme); err != nil {
		panic(err)
	}
	writes := map[string]int{}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).WithStatusSubresource(objs...).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceApply: func(ctx context.Context, c client.Client, subResource string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
				options := &client.SubResourceApplyOptions{}
				options.ApplyOpts(opts)
				writes[options.FieldManager]++
				if subResource != "status" || !ptr.Deref(options.Force, false) {
					return errors.New("not a forced apply of the status")
				}
				return applyLists(ctx, c, obj)
			},
		}).Build(), writes
}

func applyLists(ctx context.Context, c client.Client, config runtime.ApplyConfiguration) error {
	applied, isUnstructured := config.(interface {
		client.Object
		UnstructuredContent() map[string]any
	})
	if !isUnstructured {
		return fmt.Errorf("an apply of %T", config)
	}
	var current, typed client.Object
	switch kind := applied.GetObjectKind().GroupVersionKind().Kind; kind {
	case "Workload":
		current, typed = &kueue.Workload{}, &kueue.Workload{}
	case "AdmissionCheck":
		current, typed = &kueue.AdmissionCheck{}, &kueue.AdmissionCheck{}
	default:
		return fmt.Errorf("an apply of a %s", kind)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(applied.UnstructuredContent(), typed, true); err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(applied), current); err != nil {
		return err
	}
	if version := applied.GetResourceVersion(); version != "" && version != current.GetResourceVersion() {
		return apierrors.NewConflict(kueue.Resource("workloads"), applied.GetName(), errors.New("not the newest version"))
	}
	switch current := current.(type) {
	case *kueue.Workload:
		for _, state := range typed.(*kueue.Workload).Status.AdmissionChecks {
			states := current.Status.AdmissionChecks
			i := slices.IndexFunc(states, func(other kueue.AdmissionCheckState) bool { return other.Name == state.Name })
			state.RetryCount = states[i].RetryCount // another manager's
			states[i] = state
		}
	case *kueue.AdmissionCheck:
		for _, condition := range typed.(*kueue.AdmissionCheck).Status.Conditions {
			apimeta.SetStatusCondition(&current.Status.Conditions, condition)
		}
	}
	if err := c.Status().Update(ctx, current); err != nil {
		return err
	}
	applied.SetResourceVersion(current.GetResourceVersion())
	return nil
}
